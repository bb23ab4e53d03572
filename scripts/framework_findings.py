"""Differences of MLX and MindSpore on finite, ordinary numbers: each in a fresh process, with the framework's own call.

    python scripts/framework_findings.py mlx        # with an interpreter that has mlx
    python scripts/framework_findings.py mindspore
    python scripts/framework_findings.py triton

Prints what the framework returns next to what float64 arithmetic gives, and exits with 1 when a finding is gone.
Neither torch nor mindgap takes part, except that triton's kernel reads a tensor of torch.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

HEADS: Final = {
    "mlx": "import numpy as np, mlx.core as mx; mx.set_default_device(mx.cpu)",
    "mindspore": (
        "import numpy as np, mindspore as ms; from mindspore import Tensor, mint, ops; ms.set_device('CPU'); "
        "ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)"
    ),
    "triton": "import os; os.environ['TRITON_INTERPRET'] = '1'",
}

FINDINGS: Final = {
    "mlx": {
        "sum of 2**20 x 0.1 in float32": ("mx.sum(mx.full((1 << 20,), 0.1)).item()", 104857.6015625, 1e-4),
        "mean of 4096 x 100 in float16": ("mx.mean(mx.full((4096,), 100.0, mx.float16)).item()", 100.0, 1e-2),
        "softmax of 3000 x 1 in float16": (
            "mx.softmax(mx.full((3000,), 1.0, mx.float16), axis=0)[0].astype(mx.float32).item()", 1 / 3000, 1e-2,
        ),
        "cumsum of 512 x 1.1 in bfloat16": (
            "mx.cumsum(mx.full((512,), 1.1, mx.bfloat16))[379].astype(mx.float32).item()", 418.59375, 1e-2,
        ),
        "erf(1e-4)": ("mx.erf(mx.array([1e-4]))[0].item()", 1.1283791633e-4, 1e-6),
        "1.0 // 0.1 in float32": ("mx.floor_divide(mx.array([1.0]), mx.array([0.1]))[0].item()", 9.0, 1e-6),
    },
    "mindspore": {
        "exp(-87)": ("mint.exp(Tensor(np.float32([-87.0])))[0].item()", 1.6458115e-38, 1e-5),
        "exp(88)": ("mint.exp(Tensor(np.float32([88.0])))[0].item()", 1.651636255e38, 1e-5),
        "expm1(1e-7)": ("mint.expm1(Tensor(np.float32([1e-7])))[0].item()", 1.0000000500000017e-07, 1e-2),
        "log1p(1e-7)": ("mint.log1p(Tensor(np.float32([1e-7])))[0].item()", 9.99999950e-08, 1e-2),
        "sigmoid(-9)": ("mint.sigmoid(Tensor(np.float32([-9.0])))[0].item()", 1.2339457598623172e-4, 1e-6),
        "1e8 mod 0.3 in float32": (
            "mint.remainder(Tensor(np.float32([1e8])), Tensor(np.float32([0.3])))[0].item()", 0.0263571739, 1e-2,
        ),
        "(2**60 + 3) mod 7 in int64": (
            "mint.remainder(Tensor(np.int64([2**60 + 3])), Tensor(np.int64([7])))[0].item()", 4, 0,
        ),
        "(2**60 + 3) / 3 truncated in int64": (
            "mint.div(Tensor(np.int64([2**60 + 3])), Tensor(np.int64([3])), rounding_mode='trunc')[0].item()",
            384307168202282326, 0,
        ),
        "sum of 2**53 + 1, 2**53 + 1, 1 in int64": (
            "mint.sum(Tensor(np.int64([2**53 + 1, 2**53 + 1, 1])), (0,)).item()", 18014398509481987, 0,
        ),
    },
    "triton": {
        "float32 to bfloat16 in the interpreter": (
            """
import torch, triton, triton.language as tl
from pathlib import Path
import tempfile, importlib.util
source = '''
import triton, triton.language as tl
@triton.jit
def cast(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, tl.load(x + i).to(tl.bfloat16))
'''
path = Path(tempfile.mkdtemp()) / 'kernel.py'
path.write_text(source)
spec = importlib.util.spec_from_file_location('kernel', path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
x, y = torch.tensor([1.9990234375] * 2), torch.empty(2, dtype=torch.bfloat16)
module.cast[(1,)](x, y, 2)
result = y[0].item()
""", 2.0, 0,
        ),
    },
}  # fmt: skip
"""By framework: the call, the right answer, and the relative error that would still be rounding."""


def show(framework: str) -> int:
    """How many findings no longer show."""
    gone = 0
    for name, (call, right, rounding) in FINDINGS[framework].items():
        body = call if "\n" in call else f"result = {call}"
        code = f"{HEADS[framework]}\n{body}\nprint('RESULT', repr(result))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        said = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not said:
            print(f"{name}: did not run: {done.stderr.strip().splitlines()[-1:]}")
            gone += 1
            continue
        result = float(said[-1].removeprefix("RESULT ").replace("inf", "1e999"))
        exact = int(said[-1].split()[1]) if said[-1].split()[1].lstrip("-").isdigit() else result
        wrong = exact != right if rounding == 0 else not abs(result - right) <= rounding * abs(right)
        gone += not wrong
        print(f"{name}: {exact!r}, float64 says {right!r}{'' if wrong else ' - no longer wrong'}")
    return gone


if __name__ == "__main__":
    sys.exit(1 if show(sys.argv[1]) else 0)
