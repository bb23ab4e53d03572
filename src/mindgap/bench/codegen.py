"""Inductor's two code generators: are faults in Triton kernels found, and which known faults do both share?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.bench.cases import read_truth
from mindgap.bench.kernel_faults import FAULTS, NO_PLACE
from mindgap.bench.measurement import Measurement, Row, Tell, share
from mindgap.errors import MindgapError
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.registry import resolve
from mindgap.records.outcome import Stage
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.session.session import Session

CPP, TRITON = "inductor", "inductor@triton"


def _ramp(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Ordinary numbers between -3 and 3, all different."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 37 % count * (6 / count) - 3).reshape(shape).to(dtype)


def _norm(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x + 4, x.shape[-1:])


PROGRAMS: Final[dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]] = {
    "exp, sum of 17": (lambda x: torch.exp(x).sum(1), (_ramp(3, 17),)),
    "amax of negative numbers": (lambda x: (-1 - x * x).amax(1), (_ramp(5, 33),)),
    "layer_norm of 19": (_norm, (_ramp(4, 19),)),
    "slice and shift": (lambda x: x[:, 1:] * 2 + 1, (_ramp(3, 9),)),
    "softmax of bfloat16": (lambda x: torch.softmax(x, -1), (_ramp(3, 21, dtype=torch.bfloat16),)),
    "float32 sum of float16": (lambda x: (x.float() * 3).sum(), (_ramp(301, dtype=torch.float16) + 2,)),
    "float32 square of float16": (lambda x: x.float() * x.float(), (_ramp(70, dtype=torch.float16) * 120,)),
    "sum of int8": (lambda x: x.sum(), ((_ramp(90) * 40).to(torch.int8),)),
    "int64 square of int32": (lambda x: x.long() * x.long(), ((_ramp(70) * 1e5).to(torch.int32),)),
}
"""Small programs of finite, ordinary values that the faults may spoil."""


def measure(tell: Tell, folder: Path = Path("cases"), only: Sequence[str] = ()) -> Measurement:
    """Planted faults, then the differences of inductor that are known; with `only`, just those of these cases."""
    config = with_planted(load_config(None))
    with Session(config) as session:
        planted = [] if only else plant(session, tell)
        replayed = replay(session, tell, folder, only)
    faulty = [row for row in planted if row["C++"] == "" and row["where"] != IDLE]
    idle = sum(row["where"] == IDLE for row in planted)
    quiet = [row for row in planted if row["C++"] == "-"]
    places = Counter(row["where"] for row in replayed)
    said = [
        f"Planted faults found: {share(sum(row['where'] == FOUND for row in faulty), len(faulty))} "
        f"of those that change a bit of the result; {idle} change none.",
        f"Programs without a fault stay quiet: {share(sum(row['where'] == QUIET for row in quiet), len(quiet))}.",
        f"Known differences of inductor: {', '.join(f'{count} {where}' for where, count in places.most_common())}.",
    ]
    return Measurement(
        "codegen",
        "faults planted in Triton kernels; inductor's known differences in C++ and in Triton code",
        f"{CPP}, {TRITON}; {len(PROGRAMS)} programs, cases of {folder}",
        [*planted, *replayed],
        "\n".join(said),
    )


FOUND, MISSED, QUIET = "found", "missed", "quiet"
IDLE: Final = "no effect"
"""The kernel gives the same bits with the fault: behind a dropped mask are zeros, which no sum feels."""
_NEAR: Final = (Conclusion.AGREES, Conclusion.ROUNDING)


def with_planted(config: Config) -> Config:
    """The configuration with a platform per fault: Triton code that has it."""
    usual = resolve(TRITON, config)
    planted = {
        f"planted-{number}": replace(
            usual,
            name=f"planted-{number}",
            adapter="mindgap.bench.kernel_faults:PlantedTriton",
            options={**usual.options, "fault": fault},
        )
        for number, fault in enumerate(FAULTS)
    }
    return replace(config, platforms={**config.platforms, **planted})


def plant(session: Session, tell: Tell) -> list[Row]:
    """Each fault in the kernels of each program that has a place for it, and each program without one."""
    rows = []
    names = {TRITON: "no fault", **{f"planted-{number}": fault for number, fault in enumerate(FAULTS)}}
    for program, (function, tensors) in PROGRAMS.items():
        tell("fault", program)
        found = session.check(function, list(tensors), [*names]).platforms
        for platform, fault in names.items():
            if NO_PLACE in found[platform].outcome.message:
                continue
            verdict = found[platform].verdict
            died = verdict.conclusion is Conclusion.FAILED and found[platform].outcome.stage is Stage.RUN
            wrong = died or verdict.conclusion in (Conclusion.DIVERGES, Conclusion.UNSTABLE)
            same = found[platform].outcome.digest == found[TRITON].outcome.digest
            where = FOUND if wrong else IDLE if same else MISSED
            if fault == "no fault":
                where = QUIET if verdict.conclusion in _NEAR else "false alarm"
            cpp = "-" if fault == "no fault" else ""
            rows.append({"subject": f"{fault}: {program}", "C++": cpp, "Triton": _word(verdict), "where": where})
    return rows


def replay(session: Session, tell: Tell, folder: Path, only: Sequence[str] = ()) -> list[Row]:
    """Each case where inductor is known to differ, with both code generators."""
    truth = read_truth(folder)
    known = [name for name, item in truth.items() if "diverges" in item["platforms"][CPP]]
    rows = []
    for name in known:
        if only and name not in only:
            continue
        tell("case", name)
        try:
            found = session.check(str((folder / f"{name}.py").absolute()), None, [CPP, TRITON]).platforms
        except MindgapError as error:
            rows.append({"subject": name, "C++": "error", "Triton": str(error), "where": "not run"})
            continue
        cpp, triton = found[CPP].verdict, found[TRITON].verdict
        rows.append({"subject": name, "C++": _word(cpp), "Triton": _word(triton), "where": _where(cpp, triton)})
    return rows


def _word(verdict: Verdict) -> str:
    kind = f" ({verdict.kind.value})" if verdict.kind is not None else ""
    return f"{verdict.conclusion.value}{kind}"


def _where(cpp: Verdict, triton: Verdict) -> str:
    """Which code generator shows a difference; the same conclusion and kind count as the same."""
    wrong = [verdict.conclusion is Conclusion.DIVERGES for verdict in (cpp, triton)]
    if Conclusion.FAILED in (cpp.conclusion, triton.conclusion):
        return "not run"
    if all(wrong):
        return "shared" if cpp.kind is triton.kind else "both, differently"
    return "C++ only" if wrong[0] else "Triton only" if wrong[1] else "neither here"
