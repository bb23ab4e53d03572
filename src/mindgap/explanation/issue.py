"""The text of an issue: what a maintainer asks for, ready to paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mindgap.explanation.code import write_code
from mindgap.explanation.reproducer import Reproducer
from mindgap.platforms.base import Platform
from mindgap.platforms.registry import adapter_class
from mindgap.program.case import Case
from mindgap.records.explanation import Cause
from mindgap.records.platform import PlatformSpec
from mindgap.tracing.examine import Examination
from mindgap.tracing.extract import is_access


def issue_text(
    spec: PlatformSpec,
    version: str,
    case: Case,
    proof: Examination,
    cause: Cause,
    reproducer: Reproducer,
    versions: Mapping[str, str],
) -> str:
    """Title, what happens, what should happen, the float64 evidence, the script and the versions."""
    operators = [node.op.split(".")[1] for node in case.graph.nodes if not is_access(node)]
    packages = (adapter_class(spec) or Platform).reproducer(spec).packages
    code = write_code(case, as_module=False, returns_changed=False)
    seen = [name for name in ("torch", *packages, "python", "system") if name in versions]
    remark = f" {cause.remark}." if cause.remark else ""
    lines = [
        f"# {spec.name}: {_title(proof, operators)}",
        "",
        "## What happens",
        "",
        f"{proof.verdict.sentence}.{remark}",
        "",
        "```python",
        code.function,
        "",
        *(f"{name} = {text}" for name, text in zip(code.names, code.inputs)),
        "```",
        "",
        "```",
        reproducer.said,
        "```",
        "",
        "## What should happen",
        "",
        _expectation(proof),
        "",
        "## Evidence",
        "",
        *(f"- {line}" for line in (*_evidence(proof), *cause.evidence)),
        "",
        "## To reproduce",
        "",
        f"`python repro.py` (attached) needs {_needs(packages)}; it exits with 1 while the difference exists.",
        "",
        "## Versions",
        "",
        f"- {spec.name} {version}",
        *(f"- {name} {versions[name]}" for name in seen),
        "",
    ]
    return "\n".join(lines)


def _needs(packages: Sequence[str]) -> str:
    return "torch, the runtime and mindgap" if "mindgap" in packages else "only torch and the runtime"


def _title(proof: Examination, operators: list[str]) -> str:
    what = " + ".join(dict.fromkeys(operators)) or "the program"
    if not proof.candidate.ok:
        return f"{what}: {proof.candidate.status.value} at {proof.candidate.stage.value}"
    if not proof.eager.ok:
        return f"{what} accepts what torch refuses"
    kinds = {"dtype": "another dtype", "shape": "another shape", "nonfinite": "wrong NaN or infinity"}
    kind = proof.verdict.kind.value if proof.verdict.kind else ""
    return f"{what} gives {kinds.get(kind, 'a wrong result')}"


def _expectation(proof: Examination) -> str:
    if not proof.candidate.ok:
        return "It should run: torch eager does, and returns a result."
    if not proof.eager.ok:
        return f"It should be refused, as torch does: {proof.eager.message.splitlines()[0]}"
    return "The result of torch eager on the CPU, up to rounding."


def _evidence(proof: Examination) -> list[str]:
    verdict = proof.verdict
    if verdict.error_over_bound is None:
        return []
    ours = f"the error against float64 is {_times(verdict.error_over_bound)} what rounding explains"
    theirs = verdict.eager_error_over_bound
    return [ours + (f"; torch eager's is {_times(theirs)}" if theirs is not None else "")]


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times" if ratio != float("inf") else "infinitely many times"
