"""Pack a campaign for a machine that cannot see this one.

\b
  mindgap pack out/hunt -o campaign.mgz                            here
  mindgap run campaign.mgz --on eager:npu -o results.mgz           there
  mindgap merge out/hunt results.mgz                               here

The pack holds every program (a few KB each; weights come from seeds) and nothing that executes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mindgap.cli.options import CampaignDirectory, output, refuse_mistakes


def command(
    directory: CampaignDirectory,
    pack: Annotated[Path, output("The pack to write.")] = Path("campaign.mgz"),
) -> None:
    refuse_mistakes(campaign=directory, outputs=[pack])
    from mindgap.campaign.packing import pack_campaign
    from mindgap.report.console import ProgressLine, show_line

    with ProgressLine() as progress:
        progress("pack", "making the variants")
        count = pack_campaign(directory, pack, tell=lambda done, total: progress.count("pack", done, total))
    size = pack.stat().st_size / 1e6
    show_line(f"{count} variants in {pack} ({size:.1f} MB)")
    show_line(f"next, on the other machine: mindgap run {pack.name} --on PLATFORM")
