"""How finely a platform computes between operators, and what it keeps of a zero."""

from __future__ import annotations

from typing import Final

from mindgap.verdicts.unspecified.rule import Practice

DENORMAL_FLUSH: Final = "denormal-flush"
INTERMEDIATE_PRECISION: Final = "intermediate-precision"
MISSING_KERNEL: Final = "missing-kernel"
SIGNED_ZERO: Final = "signed-zero"

RULES: Final = (
    Practice(
        DENORMAL_FLUSH,
        "denormal numbers may be taken for zero: most accelerators and some CPU runtimes do so for speed",
        "torch.set_flush_denormal",
    ),
    Practice(
        INTERMEDIATE_PRECISION,
        "a platform may keep intermediate values at higher precision, where others round or overflow",
        "torch._inductor.config.emulate_precision_casts; pytorch#183761, pytorch#145466",
    ),
    Practice(
        MISSING_KERNEL,
        "eager has no kernel for an operator with this element type; a platform that has one may return what it likes",
        "torch raises '\"name\" not implemented for 'Half''; no reference says what the result should be",
    ),
    Practice(
        SIGNED_ZERO,
        "-0.0 equals 0.0, and a platform that drops `x + 0.0` or orders a maximum otherwise turns one into the other; "
        "1/x, atan2 and copysign tell them apart, and what they make of it is judged",
        "torch.testing.assert_close takes -0.0 for 0.0; pytorch#189799",
    ),
)
