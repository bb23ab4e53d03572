"""How a page was made and where it ends: the words of its last section."""

from __future__ import annotations

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
    "agrees: the bits of eager. rounding: other bits, no farther than rounding explains. diverges: somebody is wrong. "
    "hazard: they differ where the behaviour is documented as unspecified. unjudged: not decided, with the reason. "
    "failed: the platform did not run the program. Observed is what ran here; declared is what a vendor's package "
    "registers; neither stands for the other.",
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
        f"{many(campaign.variants, 'whole variant')} and {many(campaign.fragments, 'fragment')} of "
        f"{many(campaign.bases, 'model')}; figures 3 to 5 count whole variants, fragments have a figure of their own.",
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
