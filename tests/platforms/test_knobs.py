"""Switches of torch itself: in force while they are asked for, and as before afterwards."""

from __future__ import annotations

import pytest
import torch

from mindgap.platforms.torch.knobs import chosen, torch_knobs
from mindgap.records.platform import PlatformSpec


def spec(device: str | None = None, **options: object) -> PlatformSpec:
    return PlatformSpec("p", "mindgap.platforms.torch.eager:Eager", device, options=options)


def test_onednn_is_tried_where_it_is_on() -> None:
    (knob,) = torch_knobs(spec())
    assert knob.layer == "oneDNN" and "mkldnn" in knob.cure
    assert torch_knobs(spec(mkldnn=False)) == ()
    with chosen(spec(**knob.options)):
        assert not torch._C._get_mkldnn_enabled()
    assert torch._C._get_mkldnn_enabled()


def test_tf32_is_tried_on_devices_that_have_it() -> None:
    (knob,) = torch_knobs(spec("cuda:1"))
    assert knob.cure.startswith("torch.backends.cudnn.allow_tf32 = ") and knob.cure.endswith(" = False")
    assert torch.backends.cudnn.allow_tf32, "torch's default"
    with pytest.raises(KeyError), chosen(spec("cuda:1", **knob.options)):
        assert not torch.backends.cudnn.allow_tf32
        assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
        raise KeyError
    assert torch.backends.cudnn.allow_tf32 and torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    assert torch_knobs(spec("cuda", **knob.options)) == () == torch_knobs(spec("mps"))
