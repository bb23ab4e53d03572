"""docs/results/test-corpus.md from pytest's report: python scripts/corpus_results.py REPORT.xml PAGE.md"""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from mindgap.corpus.plan import libraries

HEADER = """# Tests of the corpus with every library installed

Made by `make test-corpus`, {date}, Python {python}, {system}, torch {torch}.

**{passed} passed, {skipped} skipped, {failed} failed** in {minutes:.0f} minutes. A missing package is a failure here.
Every model below was loaded, exported, encoded, decoded and compared bit for bit with its source.

| model | seconds | result | packages |
|---|---|---|---|
"""
MODEL_TEST = re.compile(r"test_a_model_becomes_an_exact_program\[(.+)\]")


def main(report: Path, page: Path) -> None:
    """Write the page."""
    suite = ElementTree.parse(report).getroot()[0]
    results = {case: _result(case) for case in suite.iter("testcase")}
    counts = Counter(result.partition(":")[0] for result in results.values())
    text = HEADER.format(
        date=datetime.datetime.now(datetime.timezone.utc).date(), python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}", torch=importlib.metadata.version("torch"),
        passed=counts["passed"], skipped=counts["skipped"], failed=counts["failed"] + counts["error"],
        minutes=float(suite.get("time", 0)) / 60,
    )  # fmt: skip
    rest = []
    for case, result in results.items():
        found = MODEL_TEST.fullmatch(case.get("name", ""))
        if found is not None:
            text += f"| {found[1]} | {float(case.get('time', 0)):.1f} | {result} | {_versions(found[1])} |\n"
        elif result != "passed":
            rest.append(f"- {case.get('name')}: {result}\n")
    page.write_text(text + ("\nNot passed among the other tests:\n\n" + "".join(rest) if rest else ""))


def _result(case: ElementTree.Element) -> str:
    for kind, word in (("failure", "failed"), ("error", "error"), ("skipped", "skipped")):
        found = case.find(kind)
        if found is not None:
            return f"{word}: {' '.join((found.get('message') or '').split())[:200]}".replace("|", "\\|")
    return "passed"


def _versions(spec: str) -> str:
    """The distributions that a model comes from, with their versions."""
    prefix, _, name = spec.partition(":")
    library = libraries()[prefix]
    table = getattr(library, "table", None)
    packages = (table[name].package,) if table else library.packages
    known = importlib.metadata.packages_distributions()
    named = [known.get(package, [package])[0] for package in packages]
    return ", ".join(f"{item} {importlib.metadata.version(item)}" for item in named)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
