"""List the rules of unspecified behaviour: what a verdict of `hazard` refers to, why, and where it is documented."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    rule: Annotated[str | None, typer.Argument(help="Only this rule.", metavar="ID")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the list as Markdown.", metavar="FILE")
    ] = None,
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
    if output is not None:
        write_whole(output, rules_markdown())
    else:
        show_rules([RULES[rule]] if rule else list(RULES.values()))
