"""Operators on platforms in words and tables; pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mindgap.operators.beside import Beside
from mindgap.operators.declared import REFERENCE, Has
from mindgap.operators.document import Answer, Change
from mindgap.operators.models import Need, lacking, prospect
from mindgap.operators.observed import Grade, Observed, blocking
from mindgap.report.markdown import cell, made_with, markdown_table

Section = tuple[str, list[str], list[list[str]]]
"""Title, titles of columns, rows."""
MOST_ROWS: Final = 20
SHORT: Final = {
    Grade.AGREES: "=", Grade.ROUNDING: "~", Grade.HAZARD: "hazard", Grade.NOT_EXERCISED: "-",
}  # fmt: skip


def sections(answer: Answer, most: int = MOST_ROWS) -> Iterator[Section]:
    """The tables of an answer: declared, predicted, observed, each under a title that says which."""
    if answer.declared and not answer.needs:
        yield _declared(answer)
    if any(item.providers for item in answer.declared) and not answer.needs:
        yield _providers(answer)
    if answer.taken and not answer.needs:
        yield _by_dtype(answer)
    if answer.needs:
        yield from _needs(answer, most)
    if answer.operators and answer.declared and not answer.needs:
        yield _by_name(answer)
    if answer.reaches:
        yield from _predicted(answer)
    if answer.observed is not None:
        yield from _observed(answer, most)
    if answer.proofs:
        yield _scripts(answer)


def _declared(answer: Answer) -> Section:
    own = {count.platform: count for count in answer.own}
    any_way = {count.platform: count for count in answer.any_way}
    rows = []
    for item in answer.declared:
        kinds = list(item.operators.values())
        mine, all_ = own.get(item.platform), any_way.get(item.platform)
        rows.append([
            item.platform,
            f"{sum(has is Has.KERNEL for has in kinds):,}",
            _fewer(mine.lacking, mine.percent, item.is_complete) if mine else "",
            _fewer(all_.lacking, all_.percent, item.is_complete) if all_ else "",
            str(all_.untraced) if all_ else "",
            item.source + (f" ({item.note})" if item.note else ""),
        ])  # fmt: skip
    count = answer.own[0].reference if answer.own else 0
    total = answer.any_way[0].reference if answer.any_way else 0
    title = (
        f"declared (nothing ran): public operators next to {REFERENCE}, which has {count} kernels of its own and "
        f"{total} operators in any way"
    )
    columns = ["platform", "kernels", "fewer kernels", "fewer operators", "parts not known", "read from"]
    return title, columns, rows


def _fewer(lacking: int, percent: float, is_complete: bool) -> str:
    return f"{lacking} ({percent:.1f}%)" if is_complete else "list incomplete"


def _providers(answer: Answer) -> Section:
    """A kernel for an element type is not all that runs: a runtime may insert casts."""
    rows = [
        [item.platform, one.name, f"{one.kernels:,}", str(one.operators),
         ", ".join(f"{dtype} {count}" for dtype, count in one.by_dtype.items())]
        for item in answer.declared
        for one in item.providers
    ]  # fmt: skip
    title = "declared (nothing ran): kernels by provider, and operators of ONNX by element type"
    return title, ["platform", "provider", "kernels", "operators of ONNX", "of those, by element type"], rows


def _by_dtype(answer: Answer) -> Section:
    rows = [[t.platform, t.dtype, *map(str, (t.taken, t.refused, t.untold))] for t in answer.taken]
    title = "declared (nothing ran): operators that a platform has, by element type"
    return title, ["platform", "dtype", "take it", "do not", "not told"], rows


def _by_name(answer: Answer) -> Section:
    weights = answer.weights or {}
    rows = [[op, str(weights.get(op, 0)), *(item.has(op).value for item in answer.declared)] for op in answer.operators]
    return "declared, operator by operator", ["operator", "models", *(i.platform for i in answer.declared)], rows


def _needs(answer: Answer, most: int) -> Iterator[Section]:
    rows = []
    for platform, needs in (answer.needs or {}).items():
        missing = lacking(needs)
        replaced = sum(bool(need.replacement) for need in missing)
        some = sum(need.has is Has.SOME for need in needs)
        told = (len(needs), len(missing), replaced, some)
        rows.append([platform, *map(str, told), prospect(needs).value])
    title = f"{answer.model}: declared (nothing ran), predicted from what packages register"
    yield title, ["platform", "operators", "missing", "replaceable", "some calls only", "could run"], rows
    rows = []
    for platform, needs in (answer.needs or {}).items():
        for need in [need for need in needs if not need.has.runs][:most]:
            instead = _instead(need)
            parts = ", ".join(_short(part) for part in need.missing_parts)
            why = f"{need.has.value}: {parts}" if parts else need.has.value
            rows.append([platform, need.op, why, instead])
    if rows:
        yield "what is missing", ["platform", "operator", "declared", "what could replace it"], rows


def _instead(need: Need) -> str:
    """What an operator that is missing can be made of there, or what it is made of that is not there."""
    if need.replacement:
        return ", ".join(map(_short, need.replacement[:6]))
    if not need.made_of:
        return "nothing that torch knows"
    there = [part for part in need.made_of if part not in need.missing_parts]
    told = ", ".join(map(_short, (*there[:6], *need.missing_parts[:3])))
    return f"it is made of {told}; of these {', '.join(map(_short, need.missing_parts[:3]))} would be needed"


def _predicted(answer: Answer) -> Iterator[Section]:
    rows = [
        [item.platform, f"{item.runnable:,} of {item.models:,}", f"{100 * item.runnable / max(1, item.models):.1f}%",
         str(item.perhaps)]
        for item in answer.reaches
    ]  # fmt: skip
    yield f"predicted from what is declared: models of {answer.models} that could run", [
        "platform", "models", "share", "more, depending on their arguments",
    ], rows  # fmt: skip
    rows = [
        [item.platform, unlock.op, str(unlock.models), str(unlock.blocked)]
        for item in answer.reaches
        for unlock in item.unlocking
    ]
    if rows:
        columns = ["platform", "operator", "models it unlocks", "models that need it"]
        yield "predicted: operators that would unlock most models, one after the other", columns, rows


def _observed(answer: Answer, most: int) -> Iterator[Section]:
    found = answer.observed
    assert found is not None
    rows = [
        [share.platform, found.modes.get(share.platform, ""), share.dtype, str(share.exercised),
         f"{share.running} ({share.fewer_percent:.1f}% fewer)",
         f"{share.supported} ({share.supported_percent:.1f}%)",
         f"{share.supported + share.only_exceptional}",
         f"{share.weighted_percent:.1f}%" if share.needed else "",
         ", ".join(f"{count} {grade}" for grade, count in sorted(share.grades.items(), key=lambda i: -i[1]))]
        for share in answer.shares
        if share.exercised
    ]  # fmt: skip
    columns = [
        "platform",
        "mode",
        "dtype",
        "operators",
        "run",
        "fully supported",
        "but for exceptional or no values",
        "weighted by models",
        "operators by grade",
    ]
    title = f"observed here: {found.programs:,} invocations, started {found.started}; of the operators that eager runs"
    yield title, columns, rows
    if any(row.declared is not None for row in answer.beside):
        yield from _beside(answer, most)
    rows = [row for platform in found.platforms for row in _blocking_rows(answer, found, platform, most)]
    if rows:
        columns = ["platform", "operator", "needed by", "worst", "dtypes", "what was said"]
        yield "observed: what blocks most real models first", columns, rows
    rows = [row for platform in found.platforms for row in _role_rows(found, platform)]
    if rows:
        columns = ["platform", "operator", "dtype, and of one argument", "grade", "with usual dtypes", "what was said"]
        title = "observed: dtypes of an index, a mask or a weight that eager takes and the platform does not"
        yield title, columns, rows


def _beside(answer: Answer, most: int) -> Iterator[Section]:
    """Declared and observed over the same operators, and where they contradict each other."""
    rows = [
        [
            b.platform, b.mode, b.dtype, str(b.operators), _share(b.declared, b.declared_fewer_percent),
            _share(b.running, b.running_fewer_percent), _weighted(b.declared_weighted_percent, b),
            _weighted(b.running_weighted_percent, b), str(len(b.missing_but_ran)), str(len(b.declared_but_nothing_ran)),
        ]
        for b in answer.beside
        if b.declared is not None
    ]  # fmt: skip
    yield "declared beside observed, over the operators that eager runs here", [
        "platform", "mode", "dtype", "operators", "declared", "ran", "declared, by models", "ran, by models",
        "declared missing but ran", "declared but nothing ran",
    ], rows  # fmt: skip
    rows = [
        [b.platform, b.dtype, what, ", ".join(map(_short, ops[:most])) + (" ..." if len(ops) > most else "")]
        for b in answer.beside
        for what, ops in (
            ("declared missing but ran", b.missing_but_ran),
            ("declared but nothing ran", b.declared_but_nothing_ran),
        )
        if ops
    ]
    if rows:
        yield "where declared and observed contradict each other", ["platform", "dtype", "what", "operators"], rows


def _share(count: int | None, fewer: float | None) -> str:
    return "-" if count is None or fewer is None else f"{count} ({fewer:.1f}% fewer)"


def _weighted(percent: float | None, row: Beside) -> str:
    return "-" if percent is None or not row.needed else f"{percent:.1f}%"


def _blocking_rows(answer: Answer, found: Observed, platform: str, most: int) -> Iterator[list[str]]:
    for op, grade, models in blocking(found, platform, answer.weights or {})[:most]:
        bad = [d for d in found.sweep.dtypes if not found.cell(platform, op, d).grade.is_supported]
        dtypes = [d for d in bad if found.cell(platform, op, d).grade is not Grade.NOT_EXERCISED]
        cells = [found.cell(platform, op, d) for d in dtypes]
        told = next((c.message for c in cells if c.grade is grade), "")
        yield [platform, op, f"{models} models", grade.value, " ".join(dtypes), told[:100]]


def _role_rows(found: Observed, platform: str) -> Iterator[list[str]]:
    for (op, asked), seen in found.by_role(platform).items():
        usual = found.cell(platform, op, asked.partition(",")[0]).grade
        if not seen.grade.is_supported and seen.grade is not Grade.NOT_EXERCISED:
            yield [platform, op, asked, seen.grade.value, usual.value, seen.message[:100]]


def _scripts(answer: Answer) -> Section:
    rows = [
        [
            p.platform,
            p.operator,
            p.dtype,
            "yes" if p.reproduces else "no" if p.tried else "not tried",
            p.script,
            p.said.splitlines()[-1][:120] if p.said else "",
        ]
        for p in answer.proofs
    ]
    again, untried = sum(p.reproduces for p in answer.proofs), sum(not p.tried for p in answer.proofs)
    title = f"scripts for what is wrong or crashes: {again} of {len(rows)} showed it again in a fresh process"
    title += f", {untried} could not be tried: their programs are not in the ledger" if untried else ""
    return title, ["platform", "operator", "dtype", "again", "script", "what it printed last"], rows


def matrix(answer: Answer) -> Section | None:
    """Every operator in every dtype on every platform that ran."""
    found = answer.observed
    if found is None:
        return None
    pairs = [(platform, dtype) for platform in found.platforms for dtype in found.sweep.dtypes]
    rows = []
    for op in found.sweep.operators:
        if answer.operators and op not in answer.operators:
            continue
        grades = [found.cell(platform, op, dtype).grade for platform, dtype in pairs]
        if any(grade is not Grade.NOT_EXERCISED for grade in grades):
            models = str((answer.weights or {}).get(op, 0))
            rows.append([op, models, *(SHORT.get(grade, grade.value) for grade in grades)])
    columns = ["operator", "models", *(f"{platform} {dtype}" for platform, dtype in pairs)]
    return "observed, operator by operator (= same bits, ~ rounding, - not exercised)", columns, rows


def notes(answer: Answer) -> list[str]:
    """What a reader must know about the tables."""
    lines = [
        f"{item.platform} declares no {', '.join(lacking)} (types in torch's generator of its kernels)"
        for item in answer.declared
        if item.dtypes and (lacking := [name for name in ("float64", "float32", "float16") if name not in item.dtypes])
    ]
    lines += [f"nothing is declared of {name}: {reason}" for name, reason in (answer.unknown or {}).items()]
    lines += list(_notes_on_runs(answer)) if answer.observed is not None else []
    if answer.weights is not None and answer.models:
        lines.append(f"models are those of {answer.models}")
    return lines


def _notes_on_runs(answer: Answer) -> Iterator[str]:
    """What did not run, or not where it was asked to."""
    found = answer.observed
    assert found is not None
    if answer.without_samples:
        yield f"torch's own samples (OpInfo) are not among the invocations: {answer.without_samples}"
    for dtype in found.sweep.dtypes:
        if not any(taken == dtype and op in found.sweep.operators for op, taken in found.exercised):
            yield f"{dtype}: nothing ran in it: eager takes none of these operators, or their turn has not come"
    for platform in found.platforms:
        away = [op for (name, op, _), seen in found.cells.items() if name == platform and seen.runs_elsewhere]
        if away:
            told = ", ".join(_short(op) for op in list(dict.fromkeys(away))[:MOST_ROWS])
            yield f"{platform} ran calls of {len(set(away))} operators on another device: {told}"


def change_rows(found: Sequence[Change]) -> list[list[str]]:
    return [
        ["worse" if c.is_worse else "changed", c.evidence, c.platform, c.operator, c.dtype, c.before, c.now]
        for c in found
    ]


def page(answer: Answer, command: str) -> str:
    """The whole answer as Markdown, the matrix included."""
    lines = ["# Operators", "", f"{made_with(answer.versions or {})} Made by `{command}`.", ""]
    for title, columns, rows in [*sections(answer, 50), *filter(None, [matrix(answer)])]:
        lines += [f"## {cell(title)}", "", *markdown_table(columns, rows), ""]
    for count in answer.any_way:
        if count.names and not answer.needs and not answer.operators:
            complete = next(item.is_complete for item in answer.declared if item.platform == count.platform)
            if complete:
                told = ", ".join(cell(_short(op)) for op in count.names)
                lines += [f"## {REFERENCE} declares them and {count.platform} does not", "", f"{told}.", ""]
    lines += [f"- {cell(note)}" for note in notes(answer)]
    return "\n".join(lines).rstrip() + "\n"


def _short(op: str) -> str:
    return op.removeprefix("aten.").removesuffix(".default")
