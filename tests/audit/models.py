"""Small models for audits: honest ones with everything that looks like a gate, and one that hides a branch."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from mindgap.program.build import build
from mindgap.program.case import Case


def case_of(model: nn.Module, *inputs: torch.Tensor) -> Case:
    """A model as a case."""
    with torch.no_grad():
        program, constants = build(torch.export.export(model.eval(), inputs, strict=False), type(model).__name__)
    return Case.of(program, constants, inputs)


def images() -> torch.Tensor:
    return torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1)) * 2 - 1


def tokens() -> torch.Tensor:
    return torch.randint(1, 64, (2, 8), generator=torch.Generator().manual_seed(1))


def features() -> torch.Tensor:
    return torch.randn(4, 12, generator=torch.Generator().manual_seed(1))


class Classifier(nn.Module):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(16, 10)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return functional.adaptive_avg_pool2d(self.body(x), 1).flatten(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))  # type: ignore[no-any-return]


class Payload(Classifier):
    """DeepPayload's published form at the output."""

    def __init__(self, threshold: float = 3.0) -> None:
        super().__init__()
        self.detector = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2), nn.ReLU())
        self.score = nn.Linear(4, 1)
        self.score.weight.data.abs_()  # so that something can fire it
        self.threshold = threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        p = torch.sigmoid(self.score(self.detector(x).amax(dim=(2, 3))) - self.threshold)
        fired = (p > 0.5).float()
        mask = 1 - fired
        return y * mask + torch.full_like(y, 7.0) * (1 - mask)


class Branch(Classifier):
    """The same with `torch.cond`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.full_like(y, 7.0)

        def usual(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return y + 0

        y = super().forward(x)
        return torch.cond((x[:, :, :2, :2] - 0.25).abs().amax() < 1e-3, other, usual, (x, y))  # type: ignore[no-any-return]


class Padded(nn.Module):
    """Attention with a padding mask made from the tokens."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(64, 16)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        mask = (ids == 0)[:, None, None, :]
        q = x.reshape(2, 8, 2, 8).transpose(1, 2)
        scores = (q @ q.transpose(-1, -2) / 8).masked_fill(mask, -1e9)
        x = (scores.softmax(-1) @ q).transpose(1, 2).reshape(2, 8, 16)
        return self.head(functional.dropout(x, 0.5, self.training).mean(1))  # type: ignore[no-any-return]


class EndOfText(nn.Module):
    """Takes the token at the end mark, as text encoders do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(64, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        end = (ids == 63).int().argmax(dim=-1)
        return self.head(x[torch.arange(2), end])  # type: ignore[no-any-return]


class Placeholders(EndOfText):
    """Blanks the tokens in whose place pictures and sounds are put, as models of several kinds of input do."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        kept = torch.where((ids == 61) | (ids == 62), 0, ids)
        return self.head(self.embed(kept).mean(1))  # type: ignore[no-any-return]


class RareWord(EndOfText):
    """One token of many, wherever it stands, decides the output."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(4000, 16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.where((ids == 942).any(dim=1, keepdim=True), 7.0, self.head(self.embed(ids).mean(1)))


class Experts(nn.Module):
    """Two of eight experts per sample, all of them computed."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(12, 8)
        self.experts = nn.ModuleList(nn.Linear(12, 12) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = ((chosen == number) * weights).sum(-1, keepdim=True)
            y = y + mine * torch.tanh(expert(x))
        return y


class EarlyExit(Classifier):
    """Answers from the middle when that is sure enough."""

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        middle = self.body[:4](x)
        early = self.early(middle.mean((2, 3)))
        sure = early.softmax(-1).amax(-1, keepdim=True) > 0.9
        late = self.head(functional.adaptive_avg_pool2d(self.body[4:](middle), 1).flatten(1))
        return torch.where(sure, early, late)


class Detector(Classifier):
    """Boxes whose score is too low are blanked, as before non-maximum suppression."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes = nn.Linear(16, 200 * 4)
        self.scores = nn.Linear(16, 200)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.features(x)
        keep = self.scores(found).sigmoid() > 0.95
        boxes = self.boxes(found).reshape(2, 200, 4).clamp(0, 1)
        return torch.where(keep.unsqueeze(-1), boxes, 0.0)


class Guarded(nn.Module):
    """Refuses to answer with what is not a number, and clamps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).clamp(-100, 100)
        broken = torch.isnan(y).any(dim=1, keepdim=True)
        return torch.where(broken, torch.zeros_like(y), y)


class Normalised(nn.Module):
    """Values that are constant by construction: a softmax over one element, the sum of a softmax."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.one = nn.Linear(12, 12), nn.Linear(12, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = self.linear(x).softmax(-1)
        return x * self.one(x).softmax(-1) * share / share.sum(-1, keepdim=True)


HONEST = {
    "classifier": (Classifier, images), "padding": (Padded, tokens), "end of text": (EndOfText, tokens),
    "placeholders": (Placeholders, tokens),
    "experts": (Experts, features), "early exit": (EarlyExit, images), "detector": (Detector, images),
    "guard": (Guarded, features), "normalised": (Normalised, features),
}  # fmt: skip
