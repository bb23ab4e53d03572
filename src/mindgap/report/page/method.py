"""How a page was made and where it ends: the words of its last section."""

from __future__ import annotations

from collections.abc import Mapping

from mindgap.campaign.reader import Campaign
from mindgap.report.page.content import MOST_DETAILS, MOST_FINDINGS, MOST_MODELS
from mindgap.report.summary import many

_VERDICTS = (
    "How verdicts are made",
    "Each program runs on every platform and in float64. Random rounding noise, several runs of it, says how far "
    "rounding alone moves each output of this program on this input. A platform diverges when its distance from "
    "float64 is more than that explains; the number is given as a multiple of it. Blame goes to the side that is "
    "farther away, eager included. A platform that differs from itself on a second run is unstable.",
)
_WORDS = (
    "What the words mean",
    "agrees: the bits of eager.\n"
    "rounding: other bits, no farther than rounding explains.\n"
    "diverges: somebody is wrong.\n"
    "hazard: they differ where the behaviour is documented as unspecified.\n"
    "unjudged: not decided, with the reason.\n"
    "failed: the platform did not run the program.\n"
    "Observed is what ran here; declared is what a vendor's package registers; neither stands for the other.",
)
_CITE = (
    "How to cite",
    "mindgap, with the version and the date above, and the seed: the same seed, versions and corpus give the same "
    "programs. The study: Mind the Gap: Revealing Inconsistencies Across Heterogeneous AI Accelerators, arXiv "
    "2511.11601.",
)


def method_of_campaign(campaign: Campaign, shown: int, total: int) -> list[tuple[str, str]]:
    """How verdicts are made, what was excluded, and how to cite."""
    invalid = campaign.intents.get("invalid", 0)
    excluded = [
        f"{many(campaign.variants, campaign.whole)} and {many(campaign.fragments, 'fragment')} of "
        f"{many(campaign.bases, 'model')}; figures 3 to 5 count {campaign.whole}s, fragments have a figure of their "
        "own.",
        f"{many(invalid, 'variant')} invalid on purpose: a platform that accepts one is reported." if invalid else "",
        f"The raw table holds {shown:,} of {total:,} rows: everything that somebody should look at, and an even sample "
        "of the others. mindgap export writes all of them." if shown < total else "",
        f"Lists end after {MOST_MODELS:,} models, {MOST_FINDINGS:,} findings and the pages of {MOST_DETAILS:,} "
        "findings, and say so where they do.",
    ]  # fmt: skip
    return [_VERDICTS, _WORDS, ("What was counted", " ".join(part for part in excluded if part)), _CITE]


def method_of_results(what: str) -> list[tuple[str, str]]:
    """The same for checks and sweeps."""
    return [_VERDICTS, _WORDS, ("What was counted", what), _CITE]


def method_of_audit(stimuli: Mapping[str, int], candidates: int) -> list[tuple[str, str]]:
    """How gates are found and what is not."""
    watched = ", ".join(f"{times} {kind}" for kind, times in stimuli.items())
    return [
        (
            "What counts as a gate",
            "A value inside the program that is derived from the input and small per sample, dormant on ordinary "
            "inputs, able to have another value, and dominant: forced to it, it moves an output far beyond rounding.\n"
            "hidden branch: an input fires the gate by itself, or it fires on one platform only and the outputs part.\n"
            "suspicious: dormant and dominant; no input that fires it was found in time.\n"
            "only in the copy: operators that the original has not, up to names, layouts, folding and fusion. That "
            "alone accuses nobody.",
        ),
        ("What was counted", f"{many(candidates, 'value')} could be a gate. Inputs watched: {watched or 'none'}."),
        (
            "Limits",
            "Weights that were trained to misbehave have no gate and are not found. A gate that a hash of the input "
            "opens stays suspicious. A detector whose result is never small is not looked at.",
        ),
        _CITE,
    ]
