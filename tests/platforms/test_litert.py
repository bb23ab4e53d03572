"""What mindgap itself does around LiteRT: element types that its converter makes smaller. The rest needs LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.platforms.base import StageFailure
from mindgap.platforms.litert import LiteRT, _placed, _widened
from mindgap.platforms.registry import resolve
from mindgap.records.outcome import Stage, Status


def test_int64_that_fits_is_given_as_int32_and_comes_back_as_int64() -> None:
    given = _placed(torch.tensor([1, -2, 2**31 - 1]), np.int32)
    assert given.dtype == np.int32 and given.tolist() == [1, -2, 2**31 - 1]
    back = _widened(torch.from_numpy(given), torch.empty(3, dtype=torch.int64))
    assert back.dtype is torch.int64 and back.tolist() == [1, -2, 2**31 - 1]


def test_int64_that_does_not_fit_is_refused() -> None:
    with pytest.raises(StageFailure, match="does not fit") as caught:
        _placed(torch.tensor([2**40]), np.int32)
    assert caught.value.status is Status.UNSUPPORTED


def test_another_element_type_than_the_converters_rule_is_refused_and_not_hidden() -> None:
    with pytest.raises(StageFailure, match="takes float32 instead of int32"):
        _placed(torch.ones(2, dtype=torch.int32), np.float32)
    assert _widened(torch.ones(2), torch.empty(2, dtype=torch.int64)).dtype is torch.float32


def test_the_ladder_ends_with_the_platform_itself() -> None:
    for name, last in (("litert", "xnnpack"), ("litert@builtin", "litert")):
        rungs = LiteRT.ladder(resolve(name)).rungs
        assert rungs[0].layer == "litert-torch" and rungs[-1].layer == last and not rungs[-1].options


def test_the_script_has_the_platforms_own_settings() -> None:
    assert "OpResolverType.AUTO" in LiteRT.reproducer(resolve("litert")).text
    assert "OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES" in LiteRT.reproducer(resolve("litert@builtin")).text


def test_an_operator_without_a_lowering_is_unsupported() -> None:
    error = RuntimeError("Lowering not found: aten.linalg_eigh.default")
    assert LiteRT(resolve("litert")).status_of(error, Stage.CONVERT) is Status.UNSUPPORTED
