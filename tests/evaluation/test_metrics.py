"""Answers, metrics and labels that do not match."""

from __future__ import annotations

import math

import pytest
import torch

from mindgap.errors import UsageError
from mindgap.evaluation.metrics import BUILT_IN, Classification, NextToken, Segmentation, UserTask, add
from mindgap.evaluation.spelling import TASKS
from mindgap.records.evaluation import Flip, PlatformEvaluation, TaskVerdict
from mindgap.report.evaluation import lines_of

LOGITS = torch.tensor([[0.1, 0.9, 0.0, 0.0, 0.0, 0.0, -1.0], [2.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0]])


def test_every_task_has_its_name() -> None:
    assert tuple(BUILT_IN) == TASKS


def test_top_1_and_top_5() -> None:
    task = Classification()
    found = task.answers({"output": LOGITS}, torch.tensor([1, 6]), [LOGITS])
    assert found.values.tolist() == [1, 0]
    assert task.metrics(found.totals) == {"top-1": 0.5, "top-5": 0.5}


def test_without_labels_answers_are_compared_and_not_rated() -> None:
    task = Classification()
    assert task.metrics(task.answers({"output": LOGITS}, None, [LOGITS]).totals) == {}


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (torch.tensor([1, 7]), "label 7, and the model has 7 outputs"),
        (torch.tensor([1, 255]), "label 255, and the model has 7 outputs"),
        (torch.tensor([-1, 0]), "the label -1"),
        (torch.tensor([0.5, 1.0]), "no whole numbers"),
        (torch.zeros(2, 2, dtype=torch.int64), "one label per sample"),
    ],
)
def test_labels_that_do_not_match(labels: torch.Tensor, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Classification().answers({"output": LOGITS}, labels, [LOGITS])


def test_an_output_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="there is no output boxes"):
        Classification("boxes").answers({"output": LOGITS}, None, [LOGITS])
    with pytest.raises(UsageError, match="no output fits classification"):
        Classification().answers({"output": LOGITS[0]}, None, [LOGITS])


def test_intersection_over_union_by_hand() -> None:
    task = Segmentation()
    answer = torch.tensor([[[0, 0], [1, 1]]])
    values = torch.nn.functional.one_hot(answer, 2).permute(0, 3, 1, 2).float()
    found = task.answers({"output": values}, torch.tensor([[[0, 1], [1, 255]]]), [values])
    # class 0: 1 of 2, class 1: 1 of 2; the pixel 255 counts for nothing
    assert task.metrics(found.totals) == {"mIoU": 0.5, "pixel accuracy": pytest.approx(2 / 3)}
    with pytest.raises(UsageError, match="the masks do not fit"):
        task.answers({"output": values}, torch.zeros(1, 3, 3, dtype=torch.int64), [values])


def test_perplexity_of_the_tokens_that_follow() -> None:
    task = NextToken()
    tokens = torch.tensor([[3, 1, 2]])
    logits = torch.zeros(1, 3, 4)
    found = task.answers({"logits": logits}, None, [tokens])
    assert found.totals["tokens"] == [2.0]  # nothing follows the last
    assert task.metrics(found.totals)["perplexity"] == pytest.approx(4.0)
    other = logits.clone()
    other[0, 1, 2] = 1.0
    changed = task.answers({"logits": other}, None, [tokens])
    assert task.changes(found, changed).tolist() == [1]
    assert task.first_change(found, changed, 0) == 1 and task.first_change(found, found, 0) is None
    with pytest.raises(UsageError, match="beyond the 4 of the model"):
        task.answers({"logits": logits}, torch.tensor([[9, 1, 2]]), [tokens])


def test_the_first_divergence_is_told() -> None:
    flips = [
        Flip(5, "b", 3.0, eager="1 at 9", candidate="2 at 9", first=4),
        Flip(2, "a", 1.0, first=7),
        Flip(8, "c", 1),
    ]
    found = PlatformEvaluation(TaskVerdict.JITTER, "jitter", flips=tuple(flips))
    assert found.first_divergence is flips[0]
    told = lines_of("openvino", found)
    assert told[1] == "  first divergence at token 4 (sample 5); median 4"
    assert told[2] == "  sample 5 b: 1 at 9 -> 2 at 9, first at 4, 3 changed"
    assert PlatformEvaluation(TaskVerdict.AGREES, "").first_divergence is None


def test_scores_of_the_user() -> None:
    task = UserTask(lambda outputs, labels: -(outputs["output"][:, 0] - labels).abs(), "file.py:score")
    first = task.answers({"output": LOGITS}, torch.tensor([0.1, 2.0]), [LOGITS])
    moved = task.answers({"output": LOGITS + 0.25}, torch.tensor([0.1, 2.0]), [LOGITS])
    assert task.changes(first, moved).tolist() == pytest.approx([0.25, 0.25], abs=1e-6)
    assert task.metrics(moved.totals)["score"] == pytest.approx(-0.25, abs=1e-6)
    nan = UserTask(lambda outputs, labels: [math.nan, 1.0], "f").answers({}, None, [LOGITS])
    assert task.changes(nan, nan).tolist() == [0.0, 0.0]


def test_a_function_that_fails_or_forgets_samples() -> None:
    def broken(outputs: dict[str, torch.Tensor], labels: object) -> object:
        return outputs["none"]

    with pytest.raises(UsageError, match=r"file\.py:score raised KeyError"):
        UserTask(broken, "file.py:score").answers({}, None, [LOGITS])
    with pytest.raises(UsageError, match="gave 1 scores for 2 samples"):
        UserTask(lambda outputs, labels: [1.0], "file.py:score").answers({}, None, [LOGITS])


def test_sums_over_batches() -> None:
    totals: dict[str, list[float]] = {}
    add(totals, {"both": [1.0, 2.0]})
    add(totals, {"both": [1.0, 0.0], "pixels": [3.0]})
    assert totals == {"both": [2.0, 2.0], "pixels": [3.0]}
