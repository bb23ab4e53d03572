"""How torch, TorchDynamo, inductor and torch.export word their errors."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.messages import MessageRules

TORCH: Final = MessageRules(
    summaries=(
        # What follows names symbols that torch made up.
        (r"Could not guard on data-dependent expression", "the code branches on the value of a tensor"),
        (r"Could not extract specialized integer from data-dependent", "the code takes a number out of a tensor"),
        (r"\.numpy\(\) is not supported for tensor subclasses", "the code calls .numpy() on a tensor"),
    ),
    rewrites=(
        (r"(?:kernel, )?\b[a-z0-9]{40,}[\w.]*:\d+, ", ""),  # where inductor keeps a kernel
        (r"<?OpOverload\(op='([\w.]+)', overload='(\w+)'\)>?", r"\1.\2"),
        (r".*: got \w+\((['\"])(.*)\1\)$", r"\2"),  # dynamo quotes the real error in its explanation
        (r"^Explanation: ", ""),
    ),
    noise=(
        r"Set TORCH", r"You can suppress", r"from user code", r"Developer debug", r"For more details",
        r"For even more", r"Context:", r"\w+ when making fake tensor call", r"backend='\w+' raised",
    ),
)  # fmt: skip
