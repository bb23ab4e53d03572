"""A classifier of handwritten digits, trained when it is built, and its test images in class folders.

    python examples/digits.py out/digits
    mindgap evaluate examples/digits.py:build --data out/digits --crop 1 --mean 0 --std 1

Needs scikit-learn, whose 1,797 real digits are its data, and Pillow for writing the images.
"""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits


class Digits(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 48)
        self.second = torch.nn.Linear(48, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(image.flatten(1))))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """All images and labels, in an order of their own: the first 1,200 are for training."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(digits.images, dtype=torch.float32)[order] / 16
    return images[:, None], torch.tensor(digits.target)[order]


def build() -> tuple[Digits, tuple[torch.Tensor]]:
    images, labels = data()
    torch.manual_seed(0)
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(120):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[:1200]), labels[:1200]).backward()
        optimizer.step()
    return model.eval().requires_grad_(False), (images[:8],)


def write(folder: Path) -> None:
    """The images that the model has not seen, in a folder per class."""
    from PIL import Image

    images, labels = data()
    for number in range(1200, len(labels)):
        target = folder / str(int(labels[number])) / f"{number}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((images[number, 0] * 255).round().to(torch.uint8).numpy()).save(target)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
