"""What a task asks of a model's outputs: which answer each sample gets, how good it is, how close it was."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import torch

from mindgap.errors import UsageError

IGNORED: Final = (-100, 255)
"""Labels that count for nothing, as torch's losses and segmentation sets write them."""

Outputs = Mapping[str, torch.Tensor]
Totals = dict[str, list[float]]
"""Sums over samples, from which metrics are made at the end."""


@dataclass(frozen=True)
class Answers:
    """The answers to one batch."""

    values: torch.Tensor
    """A label per sample, pixel or token; a score per sample for tasks of the user's own."""
    totals: Totals = field(default_factory=dict)
    right: torch.Tensor | None = None
    """Per sample, where an answer is right or wrong."""


class Task(ABC):
    """What is asked of the outputs of a model."""

    name: ClassVar[str]

    def __init__(self, output: str | None = None) -> None:
        self._output = output

    @abstractmethod
    def answers(self, outputs: Outputs, labels: torch.Tensor | None, inputs: Sequence[torch.Tensor]) -> Answers:
        """The answers to a batch, of which only the samples that count are given."""

    @abstractmethod
    def metrics(self, totals: Totals) -> dict[str, float]:
        """From sums over all samples; the first is the one that is compared."""

    def changes(self, baseline: Answers, other: Answers) -> torch.Tensor:
        """How much of each sample's answer is another one."""
        return (baseline.values != other.values).reshape(len(baseline.values), -1).sum(1)

    def first_change(self, baseline: Answers, other: Answers, sample: int) -> int | None:
        """The position at which a sample's answer becomes another one, where positions follow each other."""
        return None

    def chosen(self, outputs: Outputs) -> torch.Tensor:
        """The output that answers."""
        if self._output is not None:
            if self._output not in outputs:
                raise UsageError(f"there is no output {self._output}", cause=f"outputs: {', '.join(outputs)}")
            return outputs[self._output]
        found = [tensor for tensor in outputs.values() if self.fits(tensor)]
        if not found:
            told = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in outputs.items())
            raise UsageError(
                f"no output fits {self.name}", cause=f"outputs: {told}", hint="--answer NAME names it; --task"
            )
        return found[0]

    def fits(self, tensor: torch.Tensor) -> bool:
        """Whether an output can be what the task asks for."""
        return tensor.is_floating_point()

    def told(self, answers: Answers, sample: int, position: int | None = None) -> str:
        """An answer for people."""
        return f"{answers.values[sample].item():g}"


class LabelTask(Task):
    """Answers are the index of the largest value along one dimension."""

    axis: ClassVar[int]

    def labels_of(self, values: torch.Tensor) -> torch.Tensor:
        return values.argmax(self.axis)

    def told(self, answers: Answers, sample: int, position: int | None = None) -> str:
        values = answers.values[sample]
        if position is None or values.dim() == 0:
            return str(int(values))
        return f"{int(values.flatten()[position])} at {position}"

    def refuse_labels(self, labels: torch.Tensor, classes: int) -> None:
        """Labels that do not match the outputs are a mistake in the data, not in the model."""
        if labels.is_floating_point():
            raise UsageError("the labels are no whole numbers", cause=str(labels.dtype).removeprefix("torch."))
        if labels.numel() and (most := int(labels.max())) >= classes:
            raise UsageError(
                f"the data have the label {most}, and the model has {classes} outputs",
                hint="labels that count from 1 need --first-label 1"
                if most == classes
                else "--classes lists them in the order of the outputs",
            )
        if labels.numel() and (least := int(labels.min())) < 0:
            raise UsageError(f"the data have the label {least}")


class Classification(LabelTask):
    """One label per sample: top-1 and top-5."""

    name = "classification"
    axis = 1

    def fits(self, tensor: torch.Tensor) -> bool:
        return tensor.is_floating_point() and tensor.dim() == 2 and tensor.shape[1] > 1

    def answers(self, outputs: Outputs, labels: torch.Tensor | None, inputs: Sequence[torch.Tensor]) -> Answers:
        values = self.chosen(outputs)
        found = self.labels_of(values)
        if labels is None:
            return Answers(found, {"samples": [float(len(found))]})
        if labels.dim() != 1:
            raise UsageError("classification needs one label per sample", cause=f"labels {list(labels.shape)}")
        self.refuse_labels(labels, values.shape[1])
        right = found == labels
        totals = {"samples": [float(len(found))], "top-1": [float(right.sum())]}
        if values.shape[1] > 5:
            totals["top-5"] = [float((values.topk(5, 1).indices == labels[:, None]).any(1).sum())]
        return Answers(found, totals, right)

    def metrics(self, totals: Totals) -> dict[str, float]:
        count = totals.get("samples", [0.0])[0]
        return {name: totals[name][0] / count for name in ("top-1", "top-5") if name in totals and count}


class Segmentation(LabelTask):
    """One label per pixel: mean intersection over union."""

    name = "segmentation"
    axis = 1

    def fits(self, tensor: torch.Tensor) -> bool:
        return tensor.is_floating_point() and tensor.dim() == 4 and tensor.shape[1] > 1

    def answers(self, outputs: Outputs, labels: torch.Tensor | None, inputs: Sequence[torch.Tensor]) -> Answers:
        values = self.chosen(outputs)
        found, classes = self.labels_of(values), values.shape[1]
        if labels is None:
            return Answers(found)
        if labels.shape != found.shape:
            raise UsageError(
                "the masks do not fit the output", cause=f"masks {list(labels.shape)}, output {list(found.shape)}"
            )
        counts = ~_ignored(labels, classes)
        self.refuse_labels(labels[counts], classes)
        truth, answer = labels[counts].to(torch.int64), found[counts]
        both = torch.bincount(truth[truth == answer], minlength=classes)
        either = torch.bincount(truth, minlength=classes) + torch.bincount(answer, minlength=classes) - both
        totals = {"both": both.double().tolist(), "either": either.double().tolist()}
        return Answers(found, totals | {"pixels": [float(counts.sum())], "right": [float(both.sum())]})

    def metrics(self, totals: Totals) -> dict[str, float]:
        if "either" not in totals:
            return {}
        shares = [both / either for both, either in zip(totals["both"], totals["either"]) if either]
        pixels = totals["pixels"][0]
        mean = sum(shares) / len(shares) if shares else 0.0
        return {"mIoU": mean, "pixel accuracy": totals["right"][0] / pixels if pixels else 0.0}


class NextToken(LabelTask):
    """One token per position: agreement, and the perplexity of the data."""

    name = "next-token"
    axis = -1

    def first_change(self, baseline: Answers, other: Answers, sample: int) -> int | None:
        changed = (baseline.values[sample] != other.values[sample]).nonzero()
        return int(changed[0]) if len(changed) else None

    def fits(self, tensor: torch.Tensor) -> bool:
        return tensor.is_floating_point() and tensor.dim() == 3

    def answers(self, outputs: Outputs, labels: torch.Tensor | None, inputs: Sequence[torch.Tensor]) -> Answers:
        values = self.chosen(outputs)
        found, vocabulary = self.labels_of(values), values.shape[-1]
        truth = labels if labels is not None else _following(inputs, found.shape)
        if truth is None:
            return Answers(found)
        if truth.shape != found.shape:
            raise UsageError(
                "the labels do not fit the output", cause=f"labels {list(truth.shape)}, output {list(found.shape)}"
            )
        counts = truth != IGNORED[0]  # 255 is a token
        wanted = truth[counts].to(torch.int64)
        if wanted.numel() and not 0 <= int(wanted.min()) <= int(wanted.max()) < vocabulary:
            raise UsageError(f"the data have tokens beyond the {vocabulary} of the model")
        logits = values[counts].double()
        loss = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum") if wanted.numel() else torch.zeros(())
        right = float((found[counts] == wanted).sum())
        return Answers(found, {"loss": [float(loss)], "tokens": [float(counts.sum())], "right": [right]})

    def metrics(self, totals: Totals) -> dict[str, float]:
        tokens = totals.get("tokens", [0.0])[0]
        if not tokens:
            return {}
        mean = totals["loss"][0] / tokens
        return {"perplexity": math.exp(min(mean, 700.0)), "token accuracy": totals["right"][0] / tokens}


class UserTask(Task):
    """A score per sample, by a function of the user's: `score(outputs, labels)`."""

    name = "score"

    def __init__(self, score: Callable[[dict[str, torch.Tensor], Any], Any], told: str) -> None:
        super().__init__()
        self._score = score
        self._told = told

    def answers(self, outputs: Outputs, labels: torch.Tensor | None, inputs: Sequence[torch.Tensor]) -> Answers:
        count = inputs[0].shape[0]
        try:
            given = self._score({name: tensor.clone() for name, tensor in outputs.items()}, labels)
            scores = torch.as_tensor(given, dtype=torch.float64).detach().reshape(-1)
        except Exception as error:
            line = (str(error).strip() or "no message").splitlines()[0]
            raise UsageError(f"{self._told} raised {type(error).__name__}", cause=line) from error
        if scores.numel() != count:
            raise UsageError(f"{self._told} gave {scores.numel()} scores for {count} samples")
        finite = scores[scores.isfinite()]
        return Answers(scores, {"samples": [float(finite.numel())], "score": [float(finite.sum())]})

    def changes(self, baseline: Answers, other: Answers) -> torch.Tensor:
        same = (baseline.values == other.values) | (baseline.values.isnan() & other.values.isnan())
        moved = (baseline.values - other.values).abs().nan_to_num(math.inf, math.inf, math.inf)
        return torch.where(same, torch.zeros_like(moved), moved.clamp(max=1e300))

    def metrics(self, totals: Totals) -> dict[str, float]:
        count = totals.get("samples", [0.0])[0]
        return {"score": totals["score"][0] / count} if count else {}


BUILT_IN: Final[dict[str, Callable[[str | None], Task]]] = {
    task.name: task for task in (Classification, Segmentation, NextToken)
}


def add(totals: Totals, more: Mapping[str, Sequence[float]]) -> None:
    """Add the sums of another batch."""
    for name, values in more.items():
        before = totals.get(name)
        totals[name] = list(values) if before is None else [a + b for a, b in zip(before, values)]


def _ignored(labels: torch.Tensor, classes: int) -> torch.Tensor:
    """255 is a label like any other where the model has as many outputs."""
    found = labels == IGNORED[0]
    return found | (labels == IGNORED[1]) if classes <= IGNORED[1] else found


def _following(inputs: Sequence[torch.Tensor], shape: torch.Size) -> torch.Tensor | None:
    """The tokens that follow those of the input; nothing follows the last."""
    tokens = next((t for t in inputs if not t.is_floating_point() and t.shape == shape), None)
    if tokens is None:
        return None
    truth = torch.full_like(tokens, IGNORED[0], dtype=torch.int64)
    truth[:, :-1] = tokens[:, 1:]
    return truth
