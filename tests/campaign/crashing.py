"""A process that makes variants and dies of one kind of call: its worker becomes this platform."""

from __future__ import annotations

import os
from typing import Any

from mindgap.platforms.torch.eager import Eager
from mindgap.records.platform import PlatformSpec
from mindgap.variants import rules, streaming
from mindgap.variants.synthesis import Variant

DEADLY = "aten.tan.default"
LETHAL = 5


class Crashing(Eager):
    """Eager in a worker that cannot learn one operator."""

    def __init__(self, spec: PlatformSpec) -> None:
        super().__init__(spec)
        learn = rules._learn

        def dying(op: str, *rest: Any) -> Any:
            if op == DEADLY:
                os.abort()
            return learn(op, *rest)

        rules._learn = dying


class Lethal(Eager):
    """Eager in a worker that one variant ends whenever it is made, outside of any call that could be noted."""

    def __init__(self, spec: PlatformSpec) -> None:
        super().__init__(spec)
        describe = streaming.described

        def dying(variant: Variant, number: int) -> streaming.MadeVariant:
            if number == LETHAL:
                os.abort()
            return describe(variant, number)

        streaming.described = dying
