"""List the rules of unspecified behaviour, which explain hazards.

A verdict of `hazard` names the rule that explains it; each rule says why and where that is documented.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import output


def command(
    rule: Annotated[str | None, typer.Argument(help="Show only this rule.", metavar="ID")] = None,
    page: Annotated[Path | None, output("Write the list as Markdown.")] = None,
) -> None:
    import difflib

    from mindgap.errors import UsageError
    from mindgap.records.files import write_whole
    from mindgap.report.console import show_rules
    from mindgap.report.reference import rules_markdown
    from mindgap.verdicts.unspecified import RULES

    if rule is not None and rule not in RULES:
        near = difflib.get_close_matches(rule, RULES, n=1, cutoff=0.3)
        raise UsageError(f"there is no rule {rule!r}", hint=f"did you mean {near[0]}?" if near else "mindgap rules")
    if page is not None:
        write_whole(page, rules_markdown())
    else:
        show_rules([RULES[rule]] if rule else list(RULES.values()))
