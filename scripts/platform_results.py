"""docs/results/test-platforms.md from pytest's report: python scripts/platform_results.py REPORT.xml PAGE.md"""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from mindgap.platforms import environments
from mindgap.platforms.registry import catalogue, recipes, resolve

HEADER = """# The contract of runtimes with an environment of their own

Made by `make test-platforms`, {date}, Python {python}, {system}, torch {torch}.

**{passed} passed, {skipped} skipped, {failed} failed** in {minutes:.0f} minutes.

| platform | what it is | passed | skipped | failed | installed | took | on the disk | packages |
|---|---|---|---|---|---|---|---|---|
"""


def main(report: Path, page: Path) -> None:
    """Write the page."""
    suite = ElementTree.parse(report).getroot()[0]
    results = [(case.get("name", ""), *_result(case)) for case in suite.iter("testcase")]
    total = Counter(kind for _, kind, _ in results)
    text = HEADER.format(
        date=datetime.datetime.now(datetime.timezone.utc).date(), python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}", torch=importlib.metadata.version("torch"),
        passed=total["passed"], skipped=total["skipped"], failed=total["failed"],
        minutes=float(suite.get("time", 0)) / 60,
    )  # fmt: skip
    by_platform: dict[str, Counter[str]] = {}
    for name, kind, _ in results:
        if platform_name := _platform(name):
            by_platform.setdefault(platform_name, Counter())[kind] += 1
    for name, counts in sorted(by_platform.items()):
        text += f"| `{name}` | {_row(name, counts)} |\n"
    rest = sorted({f"- `{name}`: {kind}: {why}\n" for name, kind, why in results if kind != "passed"})
    page.write_text(text + ("\nNot passed:\n\n" + "".join(rest) if rest else ""))


def _platform(test: str) -> str:
    """The platform with an environment of its own that a test names among its parameters."""
    found = re.search(r"\[([^\]]+)\]$", test)
    known = {spec.name for spec in catalogue() if spec.environment}
    parts = [found[1], *found[1].split("-")] if found else []
    return next((part for part in parts if part in known), "")


def _row(name: str, counts: Counter[str]) -> str:
    spec = resolve(name)
    found = environments.find(recipes()[spec.environment])
    made = (found.date, f"{found.seconds:.0f} s", f"{found.size_mb:,} MB") if found else ("no", "", "")
    packages = ", ".join(item.replace("==", " ") for item in recipes()[spec.environment].pins[:2])
    numbers = (str(counts[kind]) for kind in ("passed", "skipped", "failed"))
    return " | ".join([spec.summary, *numbers, *made, packages])


def _result(case: ElementTree.Element) -> tuple[str, str]:
    for kind, word in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(kind)
        if found is not None:
            return word, " ".join((found.get("message") or "").split())[:200].replace("|", "\\|")
    return "passed", ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
