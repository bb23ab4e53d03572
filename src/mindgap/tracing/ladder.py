"""Which layer of a compiler or exporter brings a difference in, and which switch removes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mindgap.execution.pool import Pool
from mindgap.platforms.names import parse_name
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import NamedTensor
from mindgap.records.verdict import Conclusion
from mindgap.tracing.examine import Examination, Examiner, Symptom
from mindgap.tracing.rungs import LAYERS, SEPARATOR, SWITCHES
from mindgap.tracing.witness import Witness
from mindgap.verdicts.judge import judge

_SAYS = {
    "dynamo": "TorchDynamo's graph on eager kernels already differs",
    "aot": "AOT Autograd (functionalisation) brings it in",
    "decomposition": "inductor's decompositions on eager kernels already differ",
    "inductor": "inductor's lowering or code generation brings it in: its decompositions on eager kernels agree, and "
    "no switch helps",
}


@dataclass(frozen=True, slots=True)
class Ladder:
    """The layer, and what it took to know it."""

    layer: str
    sentence: str
    cause: str = ""
    """The kind of cause that the layer stands for, if it stands for one."""
    rungs: tuple[tuple[str, str], ...] = ()
    """What was run, and what became of it there."""
    restoring: tuple[str, ...] = ()
    """Switches that restore agreement."""


Resolve = Callable[[str], PlatformSpec]


def climb(examiner: Examiner, witness: Witness, found: Examination, resolve: Resolve) -> Ladder | None:
    """The ladder of the platform's runtime; None where it has none."""
    symptom = found.symptom
    parsed = parse_name(examiner.platform.name)
    if symptom is None or parsed is None:
        return None
    if parsed.runtime == "inductor" and symptom.candidate_runs:
        return _torch_compile(examiner, witness, found)
    if parsed.runtime == "onnxruntime":
        return _onnx(examiner.pool, examiner.baseline, witness, symptom, resolve)
    return _threads(examiner, witness, symptom)


def _threads(examiner: Examiner, witness: Witness, symptom: Symptom) -> Ladder | None:
    """For a platform that was given several threads: whether one alone agrees."""
    spec = examiner.platform
    if int(str(spec.options.get("threads", 1))) == 1:
        return None
    alone = replace(spec, name=f"{spec.name} with one thread", options={**spec.options, "threads": 1})
    found = Examiner(examiner.pool, examiner.baseline, alone).examine(witness)
    examiner.pool.retire(alone)
    differs = found.symptom is not None and symptom.fits(found.symptom, exactly=False)
    rungs = (("one thread", _word(differs)),)
    if differs:
        return Ladder("", "one thread alone differs as well", "", rungs)
    return Ladder("threads", "one thread alone agrees", "instruction scheduling", rungs, ("it runs with one thread",))


def _torch_compile(examiner: Examiner, witness: Witness, found: Examination) -> Ladder | None:
    spec = replace(examiner.platform, name=f"{examiner.platform.name} rungs", adapter="mindgap.tracing.rungs:Rungs")
    outcome = examiner.run(spec, witness)
    examiner.pool.retire(spec)
    if not outcome.ok:
        return None
    answers: dict[str, bool | None] = {}
    for rung in (*LAYERS, *SWITCHES):
        prefix = f"{rung.name}{SEPARATOR}"
        outputs = tuple(
            NamedTensor(item.name.removeprefix(prefix), item.tensor, item.stride)
            for item in outcome.outputs
            if item.name.startswith(prefix)
        )
        answers[rung.name] = _differs(found, replace(outcome, outputs=outputs)) if outputs else None
    layer = next((rung.name for rung in LAYERS if answers[rung.name]), "")
    if not layer:
        return None
    rungs = tuple((name, _word(answer)) for name, answer in answers.items())
    helping = [switch for switch in SWITCHES if layer == "inductor" and answers[switch.name] is False]
    restoring = tuple(f"inductor runs with {switch.name}" for switch in helping)
    if helping:
        text = f"inductor's {helping[0].layer} brings it in: with {helping[0].name} it agrees"
        return Ladder(helping[0].layer, text, "", rungs, restoring)
    return Ladder(layer, _SAYS[layer], "decomposition" if layer == "decomposition" else "", rungs)


def _differs(found: Examination, outcome: Outcome) -> bool:
    verdict = judge(found.eager, [outcome], found.survey)[outcome.platform].verdict
    return verdict.conclusion is Conclusion.DIVERGES


def _onnx(pool: Pool, baseline: PlatformSpec, witness: Witness, symptom: Symptom, resolve: Resolve) -> Ladder:
    """The standard's own implementation as the arbiter between the exporter and the runtime."""
    answers: dict[str, bool | None] = {}
    for name in ("onnx-reference", "onnxruntime@noopt"):
        other = Examiner(pool, baseline, resolve(name)).examine(witness)
        ran = other.candidate.ok or not symptom.candidate_runs
        answers[name] = None if not ran else other.symptom is not None and symptom.fits(other.symptom, exactly=False)
    rungs = tuple((name, _word(answer)) for name, answer in answers.items())
    restoring = ("onnxruntime runs without graph optimisations",) if answers["onnxruntime@noopt"] is False else ()
    if answers["onnx-reference"]:
        text = "onnx-reference, the standard's own implementation, gives the same result: the exported model is wrong"
        return Ladder("exporter", text, "exporter semantics", rungs, restoring)
    if answers["onnxruntime@noopt"] is False:
        level = _first_level(pool, baseline, witness, symptom, resolve("onnxruntime"))
        text = f"graph optimisations of level {level} bring it in; without any ONNX Runtime agrees"
        return Ladder("optimiser", text, "", (*rungs, (f"optimisations up to {level}", _word(True))), restoring)
    if answers["onnx-reference"] is None:
        return Ladder("", "onnx-reference cannot run it, so exporter and runtime cannot be told apart", "", rungs)
    return Ladder("runtime", "onnx-reference agrees with eager: the exported model is right", "", rungs)


def _first_level(pool: Pool, baseline: PlatformSpec, witness: Witness, symptom: Symptom, runtime: PlatformSpec) -> str:
    """The lowest level of graph optimisation that shows it."""
    for level in ("basic", "extended"):
        limited = replace(runtime, name=f"onnxruntime {level}", options={**runtime.options, "optimisation": level})
        found = Examiner(pool, baseline, limited).examine(witness)
        pool.retire(limited)
        if found.symptom is not None and symptom.fits(found.symptom, exactly=False):
            return level
    return "all"


def _word(answer: bool | None) -> str:
    return "did not run" if answer is None else "differs" if answer else "agrees"
