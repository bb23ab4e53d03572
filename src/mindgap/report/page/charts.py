"""Charts as Vega-Lite specifications, made with Altair: the page draws them, and `--figures` writes them as files."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from mindgap.errors import UsageError
from mindgap.records.files import write_whole
from mindgap.report.page.content import GLYPHS, Figure
from mindgap.verdicts.elements import THRESHOLD

COLOURS: Final = {
    "good": "#2f7d8c", "soft": "#9cc3cb", "shared": "#6b7fa8", "bad": "#c2410c", "shaky": "#8b4b9e", "warn": "#d9a21b",
    "open": "#b9bfc8", "none": "#5d6673", "grave": "#7a1f0a",
}  # fmt: skip
"""Told apart by people who see few colours: light and dark alternate, and a glyph and a word stand beside each."""
TONES: Final = {
    "ok": "good", "agrees": "good", "same bits": "good", "works": "good", "fixed": "good", "rounding": "soft",
    "same fault": "shared", "diverges": "bad", "differs": "bad", "appeared": "bad", "unstable": "shaky",
    "hazard": "warn", "changed": "warn", "unjudged": "open", "not judged": "open", "not exercised": "open",
    "not run": "open",
    "waiting": "open", "failed": "none", "unsupported": "none", "rejected": "shared", "error": "bad", "crash": "grave",
    "timeout": "shaky", "oom": "warn", "did not run": "none",
    "agrees bitwise": "good", "wrong": "bad", "accepts invalid input": "shaky", "rejects valid input": "shared",
    "hang": "grave", "out of memory": "grave", "compile error": "shaky", "not convertible": "none",
    "hidden branch": "bad", "suspicious": "warn", "none found": "good", "only in the copy": "warn",
}  # fmt: skip
"""The colour of every word."""
ROW, WIDTH, LABELLED = 30, 560, 0.045
"""Height of a row, width of a figure in a file, and the share from which on a part of a bar shows its number."""


@functools.cache
def _altair() -> Any:
    try:
        return import_module("altair")
    except ImportError as error:
        raise UsageError("charts need altair", hint="pip install 'mindgap[report]'") from error


def bars_spec(figure: Figure, alone: bool) -> dict[str, Any]:
    """Stacked bars; `alone` is for a file, with a legend and fixed colours, otherwise the page's own are used."""
    alt = _altair()
    shown = [word for word in figure.words if any(bar.word == word for bar in figure.bars)]
    values = [_value(figure, bar_, shown) for bar_ in figure.bars]
    colour = [COLOURS[TONES[word]] if alone else f"var(--{TONES[word]})" for word in shown]
    legend = alt.Legend(title=None, orient="top", labelLimit=0, symbolType="square") if alone else None
    y = alt.Y(
        "row:N",
        title=None,
        sort=figure.rows(),
        axis=alt.Axis(labelLimit=230, ticks=False, domain=False, labelPadding=8),
    )
    base = alt.Chart(alt.Data(values=values)).encode(y=y)
    bars = base.mark_bar(height=18).encode(
        x=alt.X("from:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5)),
        x2="to:Q",
        color=alt.Color("label:N", scale=alt.Scale(domain=[_label(w) for w in shown], range=colour), legend=legend),
        tooltip=alt.Tooltip("said:N"),
        description=alt.Description("said:N"),
        **({} if alone else {"href": alt.Href("link:N")}),
    )
    numbers = (
        base.transform_filter(f"datum.to - datum.from >= {LABELLED}")
        .mark_text(fontSize=11, fontWeight=600)
        .encode(x="middle:Q", text="count:Q", color=alt.Color("ink:N", scale=None))
    )
    chart = alt.layer(bars, numbers).properties(
        width=WIDTH if alone else "container",
        height=ROW * len(figure.rows()),
        **({"title": alt.Title(figure.title, anchor="start", color="#1c2430", fontSize=14, offset=8)} if alone else {}),
    )
    return _styled(chart, alone)


_LIGHT: Final = ("soft", "warn", "open")
"""Colours that dark letters are read on."""


def _value(figure: Figure, bar: Any, shown: list[str]) -> dict[str, Any]:
    before = sum(b.count for b in figure.bars if b.row == bar.row and shown.index(b.word) < shown.index(bar.word))
    start, end = before / bar.total, (before + bar.count) / bar.total
    return {
        "row": bar.row,
        "label": _label(bar.word),
        "count": bar.count,
        "from": start,
        "to": end,
        "middle": (start + end) / 2,
        "said": f"{bar.row}: {bar.count:,} of {bar.total:,} {bar.word} ({bar.count / bar.total:.1%})",
        "ink": "#1c2430" if TONES[bar.word] in _LIGHT else "#ffffff",
        "link": bar.link,
    }


def _label(word: str) -> str:
    return f"{GLYPHS.get(word, '')} {word}".strip()


def trace_spec() -> dict[str, Any]:
    """Own and inherited error along the data flow; the page puts in the `steps` of a finding."""
    alt = _altair()
    steps = alt.Chart(alt.NamedData(name="steps"))
    x = alt.X(
        "index:Q",
        title="operator, in the order of execution",
        scale=alt.Scale(zero=False, nice=False, padding=12),
        # Between few operators Vega puts ticks at halves, and would round their labels.
        axis=alt.Axis(
            tickCount=12, ticks=False, grid=False, labelExpr="datum.value % 1 ? '' : datum.label", format="d"
        ),
    )
    y = alt.Y(
        "error:Q",
        title="error / rounding",
        scale=alt.Scale(type="log", clamp=True, domainMin=alt.ExprRef("decades[0]")),
        axis=alt.Axis(format="~g", values=alt.ExprRef("decades")),
    )
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=["of the whole so far", "its own"], range=["var(--soft-line)", "var(--accent)"]),
        legend=alt.Legend(orient="top", symbolType="circle"),
    )
    line = (
        steps.transform_filter("datum.what === 'of the whole so far'")
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(x=x, y=y, color=colour)
    )
    points = steps.mark_point(filled=True, opacity=1).encode(
        x=x,
        y=y,
        color=colour,
        shape=alt.Shape("shape:N", scale=None),
        size=alt.Size("size:Q", scale=None),
        tooltip=alt.Tooltip("said:N"),
    )
    limits = alt.Chart(alt.Data(values=[{"y": 1, "said": "1"}, {"y": THRESHOLD, "said": f"{THRESHOLD:g} allowed"}]))
    level = alt.Y("y:Q", title="error / rounding")
    rules = limits.mark_rule(strokeDash=[4, 4], color="var(--bad)").encode(y=level)
    names = (
        limits.transform_filter("datum.y > 1")
        .mark_text(align="left", baseline="bottom", dy=-3, fontSize=11, color="var(--t-bad)")
        .encode(x=alt.value(4), y=level, text="said:N")
    )
    return _styled(alt.layer(rules, names, line, points).properties(width="container", height=220), False)


def _styled(chart: Any, alone: bool) -> dict[str, Any]:
    ink, faint, grid = ("#1c2430", "#5a6675", "#e3e7ec") if alone else ("var(--ink)", "var(--quiet)", "var(--line)")
    # A file is drawn with the fonts of this machine: one that has the signs keeps words from changing their font.
    font = "system-ui, sans-serif" if not alone else "DejaVu Sans, Segoe UI Symbol, sans-serif"
    styled = (
        chart.configure(font=font, background="#ffffff" if alone else "transparent")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=ink, titleColor=faint, gridColor=grid, tickColor=grid, domainColor=grid, labelFontSize=12,
            titleFontSize=12, titleFontWeight="normal",
        )
        .configure_legend(labelColor=ink, labelFontSize=12)
    )  # fmt: skip
    return dict(styled.to_dict(validate=False))


def chart_code() -> str:
    """The charting library for a page, as vl-convert bundled it."""
    return Path(__file__).with_name("vega.js").read_text(encoding="utf-8")


def write_figures(figures: tuple[Figure, ...], directory: Path) -> Iterator[Path]:
    """Every figure as SVG, PNG and specification."""
    try:
        convert = import_module("vl_convert")
    except ImportError as error:
        raise UsageError("--figures needs vl-convert-python", hint="pip install 'mindgap[report]'") from error
    for figure in figures:
        spec = bars_spec(figure, alone=True)
        files: Mapping[str, str | bytes] = {
            "json": json.dumps(spec, indent=1),
            "svg": convert.vegalite_to_svg(spec),
            "png": convert.vegalite_to_png(spec, scale=2),
        }
        for ending, content in files.items():
            path = directory / f"{figure.id}.{ending}"
            write_whole(path, content)
            yield path
