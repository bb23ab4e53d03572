"""An operator sweep as the content of a page: operator by dtype by platform, declared next to observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from mindgap.operators.observed import ORDER, Grade
from mindgap.report.documents import NOT_EXERCISED, OperatorCell, OperatorsDocument
from mindgap.report.page.content import Bar, Content, Entry, Figure, Link, Table, term, to
from mindgap.report.page.method import method_of_results
from mindgap.report.results import BAD
from mindgap.report.summary import many

MOST_FIRST: Final = 6
_WORDS: Final = tuple(sorted((grade.value for grade in Grade), key=lambda word: -ORDER[Grade(word)]))
"""From what works to what is worst; what was not exercised comes first, where nothing is known."""


def operators_content(found: OperatorsDocument) -> Content:
    """Operators by dtype and platform, declared next to observed."""
    words = Counter((cell.platform, cell.observed or NOT_EXERCISED) for cell in found.cells)
    totals = Counter(cell.platform for cell in found.cells)
    bad = [cell for cell in found.cells if cell.observed in BAD]
    nothing_ran = not any(cell.observed for cell in found.cells)
    return Content(
        title=f"{many(len({cell.operator for cell in found.cells}), 'operator')} on {', '.join(found.platforms)}",
        subject="operator sweep",
        conclusion=_conclusion(found, words, totals, nothing_ran),
        mood=_mood(bad, nothing_ran),
        strip=[*found.versions.items(), ("made", found.created.replace("T", " ").replace("Z", " UTC"))],
        not_decided=[
            f"{name}: {words[name, NOT_EXERCISED]:,} of {totals[name]:,} not exercised; that says nothing about them"
            for name in found.platforms
            if words[name, NOT_EXERCISED]
        ],
        figures=() if nothing_ran else (_figure(found, words, totals),),
        tables=tuple(_tables(found)),
        first=_first(bad),
        sections={"operators": {"platforms": list(found.platforms), "rows": _rows(found)}},
        method=method_of_results(f"{many(len(found.cells), 'cell')}: operator, dtype and platform."),
    )


def _conclusion(found: OperatorsDocument, words: Counter[Any], totals: Counter[str], nothing_ran: bool) -> str:
    if nothing_ran:
        return "Nothing ran: this is what packages declare, and says nothing about whether results are right."
    told = []
    for name in found.platforms:
        ran = totals[name] - words[name, NOT_EXERCISED]
        fail = sum(count for (platform, word), count in words.items() if platform == name and word in BAD)
        if ran:
            told.append(f"{name}: {fail:,} of {ran:,} fail or are wrong" if fail else f"{name}: all {ran:,} work")
    return "; ".join(told) + "."


def _mood(bad: Sequence[OperatorCell], nothing_ran: bool) -> str:
    if nothing_ran:
        return "unjudged"
    wrong = (Grade.WRONG.value, Grade.ACCEPTS_INVALID.value, Grade.UNSTABLE.value, "diverges", "differs")
    return "diverges" if any(cell.observed in wrong for cell in bad) else "failed" if bad else "agrees"


def _figure(found: OperatorsDocument, words: Counter[Any], totals: Counter[str]) -> Figure:
    bars = [
        Bar(name, word, words[name, word], totals[name], to("operators", f"{term('p', name)} {term('v', word)}"))
        for name in found.platforms
        for word in _WORDS
        if words[name, word]
    ]
    return Figure("operators", "What was observed", "Operators by dtype, per platform.", tuple(bars), _WORDS)


def _tables(found: OperatorsDocument) -> Iterator[Table]:
    told: dict[tuple[str, str], str] = {(c.platform, c.operator): c.declared for c in found.cells if c.declared}
    counts = Counter((platform, word) for (platform, _), word in told.items())
    words = list(dict.fromkeys(word for _, word in counts))
    rows = []
    for name in found.platforms:
        if any(counts[name, word] for word in words):
            links = (to("operators", f"{term('p', name)} {term('d', word)}") for word in words)
            cells = [Link(f"{counts[name, w]:,}", link) if counts[name, w] else "" for w, link in zip(words, links)]
            rows.append([name, *cells])
    if rows:
        yield Table("What packages declare of these operators; nothing ran for it", ["platform", *words], rows)


def _first(bad: Sequence[OperatorCell]) -> list[Entry]:
    """The gravest first; of an operator and a platform one entry, whatever the dtypes."""
    ranked = sorted(bad, key=lambda cell: ORDER[Grade(cell.observed)])
    groups: dict[tuple[str, str], list[OperatorCell]] = {}
    for cell in ranked:
        groups.setdefault((cell.platform, cell.operator), []).append(cell)
    return [
        Entry(
            f"{platform}: {operator} {cells[0].observed}",
            cells[0].said,
            to("operators", f"{term('p', platform)} {term('op', operator)}"),
            ", ".join(dict.fromkeys(cell.dtype for cell in cells)),
        )
        for (platform, operator), cells in list(groups.items())[:MOST_FIRST]
    ]


def _rows(found: OperatorsDocument) -> list[list[Any]]:
    cells: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for cell in found.cells:
        called = ", ".join(f"{count} {word}" for word, count in cell.invocations.items())
        cells.setdefault((cell.operator, cell.dtype), {})[cell.platform] = [
            cell.declared, cell.observed, cell.said, called
        ]  # fmt: skip
    return [[*key, *(by.get(name) for name in found.platforms)] for key, by in sorted(cells.items())]
