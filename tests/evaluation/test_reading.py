"""Images and arrays as a model takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.corpus.library import import_library
from mindgap.errors import CorruptFile, UsageError
from mindgap.evaluation.arrays import open_arrays
from mindgap.evaluation.images import ImageReader, Preprocessing, preprocessing_of
from mindgap.evaluation.spelling import Wanted

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A real photograph."""
    data = pytest.importorskip("skimage.data")
    Image.fromarray(data.astronaut()).save(tmp_path / "astronaut.png")
    return tmp_path / "astronaut.png"


def test_the_usual_preprocessing_is_torchvisions(photo: Path) -> None:
    import_library("timm", "timm")
    transforms = pytest.importorskip("torchvision.transforms")
    usual = transforms.Compose(
        [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
         transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    )  # fmt: skip
    found = ImageReader(Preprocessing((224, 224))).read(photo)
    with Image.open(photo) as image:
        expected = usual(image.convert("RGB"))
    assert torch.allclose(found, expected, atol=1e-6)


def test_a_model_of_timm_is_fed_as_timm_feeds_it(photo: Path) -> None:
    timm = import_library("timm", "timm")
    data = import_library("timm.data", "timm")
    model: Any = timm.create_model("vit_tiny_patch16_224", pretrained=False, img_size=96)
    how = preprocessing_of(model, (1, 3, 96, 96), Wanted())
    assert how.timm and how.mean == (0.5, 0.5, 0.5) and how.crop == 0.9 and how.interpolation == "bicubic"
    config = data.resolve_data_config({}, model=model) | {"input_size": (3, 96, 96)}
    expected = data.create_transform(**config, is_training=False)
    with Image.open(photo) as image:
        assert torch.equal(ImageReader(how).read(photo), expected(image.convert("RGB")))


def test_wishes_come_first() -> None:
    how = preprocessing_of(None, (4, 1, 8, 8), Wanted(crop=1.0, mean=(0.0,), std=(1.0,)))
    assert (how.size, how.channels, how.crop, how.mean) == ((8, 8), 1, 1.0, (0.0,))
    assert how.told() == "ImageNet's usual: bilinear, crop 1, 8 x 8, mean 0, std 1"


@pytest.mark.parametrize(
    ("shape", "wanted", "said"),
    [
        ((1, 4, 8, 8), Wanted(), "images of 4 channels"),
        ((1, 3, 8, 8), Wanted(mean=(0.5,)), "--mean has 1 values for 3 channels"),
        ((1, 1, 8, 8), Wanted(std=(0.0,)), "--std has a zero"),
    ],
)
def test_preprocessing_that_cannot_be(shape: tuple[int, ...], wanted: Wanted, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        preprocessing_of(None, shape, wanted)


def test_an_image_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "torn.jpeg").write_bytes(b"\xff\xd8\xff\xe0 torn")
    with pytest.raises(CorruptFile, match=r"torn\.jpeg cannot be read as an image"):
        ImageReader(Preprocessing((8, 8))).read(tmp_path / "torn.jpeg")


def save(path: Path, arrays: dict[str, Any]) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        from safetensors.numpy import save_file

        save_file(arrays, path)
    return path


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors"])
def test_arrays_by_name(tmp_path: Path, name: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    arrays = open_arrays(save(tmp_path / name, {"x": x, "labels": np.array([3, 2, 1, 0])}))
    assert (arrays.names, arrays.labels, arrays.count) == (["x"], "labels", 4)
    assert arrays.rows("x", [3, 1]).tolist() == [[9.0, 10.0, 11.0], [3.0, 4.0, 5.0]]
    assert arrays.rows("labels", [3, 1]).tolist() == [0, 2]


def test_arrays_that_do_not_fit_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="differ in their number of samples"):
        open_arrays(save(tmp_path / "a.npz", {"x": np.zeros((4, 3)), "labels": np.zeros(3)}))
    with pytest.raises(UsageError, match="holds no inputs"):
        open_arrays(save(tmp_path / "b.npz", {"labels": np.zeros(3)}))
    with pytest.raises(UsageError, match="holds no samples"):
        open_arrays(save(tmp_path / "c.npz", {"x": np.zeros((0, 3))}))


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors"])
def test_a_damaged_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(CorruptFile, match="cannot be read"):
        open_arrays(tmp_path / name)


def test_a_pickle_inside_is_not_executed(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(CorruptFile, match="cannot be read") as error:
        open_arrays(tmp_path / "a.npz")
    assert "allow_pickle" in str(error.value.cause)
