"""The text of an issue: what a maintainer asks for, ready to paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.explanation.code import Code, write_code
from mindgap.explanation.markdown import inline, inside_fence
from mindgap.explanation.reproducer import Reproducer
from mindgap.explanation.short import ShortScript, is_eager_wrong
from mindgap.platforms.base import Platform
from mindgap.platforms.registry import adapter_class
from mindgap.program.case import Case
from mindgap.records.explanation import Cause, Layer, named
from mindgap.records.platform import PlatformSpec
from mindgap.tracing.examine import Examination
from mindgap.tracing.extract import computing_first

MOST_CODE: Final = 3000
"""Characters of a program that somebody reads in an issue; a longer one is in the script."""
MOST_SAID: Final = 1200
MOST_LINE: Final = 240
MOST_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class Asked:
    """What maintainers ask back, with the answers."""

    layer: Layer | None = None
    """Which part of the runtime brings it in, what was tried, and what cures it."""
    processes: int = 0
    """Fresh processes, all of which showed it."""
    elsewhere: tuple[str, ...] = ()
    """What other installed versions do."""

    @property
    def cures(self) -> tuple[str, ...]:
        return self.layer.cures if self.layer is not None else ()

    def lines(self) -> list[str]:
        """For the evidence."""
        lines = [f"seen in {self.processes} of {self.processes} fresh processes"] if self.processes else []
        if self.layer is not None:
            lines.append(f"layer: {self.layer.sentence}")
            lines.append("tried: " + "; ".join(f"{name} {answer}" for name, answer in self.layer.rungs))
        return [*lines, *(f"another version: {line}" for line in self.elsewhere)]


def issue_text(
    spec: PlatformSpec,
    version: str,
    case: Case,
    proof: Examination,
    cause: Cause,
    reproducer: Reproducer,
    versions: Mapping[str, str],
    short: ShortScript | None = None,
    asked: Asked | None = None,
) -> str:
    """Title, a short script, what happens, what should happen, the evidence, the script and the versions; under 8 KB.

    A program that is too long to read is left to the script.
    """
    operators = [node.op.split(".")[1] for node in computing_first(case.graph)]
    platform = adapter_class(spec) or Platform
    packages, headings = platform.reproducer(spec).packages, platform.headings
    code = write_code(case, as_module=False, returns_changed=False)
    seen = [name for name in ("torch", *packages, "python", "system") if name in versions]
    proof, cause = _as_text(proof, cause)
    code, reproducer = _fenced(code, reproducer)
    remark = f" {cause.remark[:1].upper()}{cause.remark[1:]}." if cause.remark else ""
    shown = "\n".join([code.function, "", *(f"{name} = {text}" for name, text in zip(code.names, code.inputs))])
    if len(shown) > MOST_CODE:
        shown = f"# {len(operators)} operators, too long to read here: see the attached script."
    asked = asked or Asked()
    cures = asked.cures
    evidence = [
        *_evidence(proof),
        *map(inline, asked.lines()),
        *(f"it shows when {inline(line)}" for line in cause.conditions),
        *cause.evidence,
    ]
    opening = _opening(short, proof) if short is not None and short.shows else []
    if opening:
        shown = ""  # it is in the script already
    lines = [
        f"# {spec.name}: {_title(proof, operators)}",
        "",
        *opening,
        f"## {headings.happens}",
        "",
        _cut(f"{proof.verdict.sentence}.{remark}", MOST_SAID),
        "",
        *(["```python", shown, "```", ""] if shown else []),
        "```",
        reproducer.said[-MOST_SAID:],
        "```",
        "",
        f"## {headings.due}",
        "",
        _expectation(proof),
        "",
        "## Evidence",
        "",
        *(f"- {_cut(line, MOST_LINE)}" for line in evidence[:MOST_LINES]),
        "",
        *(["## What restores agreement", "", *(f"- `{line}`" for line in cures[:MOST_LINES]), ""] if cures else []),
        f"## {headings.reproduce}",
        "",
        f"`python repro.py` (attached) needs {_needs(packages)}; it exits with 1 while the difference exists.",
        "",
        f"## {headings.versions}",
        "",
        f"- {spec.name} {version}",
        *(f"- {name} {versions[name]}" for name in seen if (name, versions[name]) != (spec.name, version)),
        "",
    ]
    return "\n".join(lines)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def _needs(packages: Sequence[str]) -> str:
    return "torch, the runtime and mindgap" if "mindgap" in packages else "only torch and the runtime"


def _title(proof: Examination, operators: list[str]) -> str:
    what = named(operators) or "the program"
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
        return _cut(f"It should be refused, as torch does: {proof.eager.message.splitlines()[0]}", MOST_SAID)
    if is_eager_wrong(proof):
        told = [
            f"{inline(e.place)} is {e.float64} in float64, {e.eager} in torch eager and {e.candidate} here."
            for e in proof.verdict.elements[:3]
            if e.float64
        ]
        return " ".join(["The result in float64, up to rounding: torch eager is wrong too.", *told])
    return "The result of torch eager on the CPU, up to rounding; float64 agrees with it."


def _opening(short: ShortScript, proof: Examination) -> list[str]:
    ends = "It ends with an AssertionError" if proof.candidate.ok else "It fails"
    return ["```python", inside_fence(short.text.rstrip()), "```", "", f"{ends} while the difference exists.", ""]


def _evidence(proof: Examination) -> list[str]:
    verdict = proof.verdict
    if verdict.error_over_bound is None:
        return []
    ours = f"the error against float64 is {_times(verdict.error_over_bound)} what rounding explains"
    theirs = verdict.eager_error_over_bound
    return [ours + (f"; torch eager's is {_times(theirs)}" if theirs is not None else "")]


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times" if ratio != float("inf") else "infinitely many times"


def _as_text(proof: Examination, cause: Cause) -> tuple[Examination, Cause]:
    """With what models and runtimes said as plain text: names and messages of a file may look like markup."""
    verdict = replace(proof.verdict, sentence=inline(proof.verdict.sentence))
    first = inline(next(iter(proof.eager.message.splitlines()), ""))
    told = replace(proof, verdict=verdict, eager=replace(proof.eager, message=first))
    return told, replace(cause, remark=inline(cause.remark), evidence=tuple(map(inline, cause.evidence)))


def _fenced(code: Code, reproducer: Reproducer) -> tuple[Code, Reproducer]:
    """With code and output that cannot end the block that they stand in."""
    function = inside_fence(code.function)
    return replace(code, function=function), replace(reproducer, said=inside_fence(reproducer.said))
