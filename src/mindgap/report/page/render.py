"""From content to one HTML file: a static overview, and everything else compressed until somebody looks at it."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import zlib
from html import escape
from pathlib import Path
from typing import Any, Final

from mindgap import __version__
from mindgap.report.page.charts import TONES, bars_spec, chart_code, trace_spec
from mindgap.report.page.content import GLYPHS, Content, Entry, Figure, Link, Table, plain
from mindgap.report.terminal import plain_text, shortened
from mindgap.verdicts.elements import THRESHOLD

SECTIONS: Final = {
    "overview": "Overview", "changes": "Changes", "consistency": "Consistency", "operators": "Operators",
    "gates": "Gates", "findings": "Findings", "runs": "Runs", "method": "Method and limits",
}  # fmt: skip
CHUNK: Final = 20
"""Pages of findings that are decoded together."""
_SCRIPTS: Final = ("dom.js", "tables.js", "sections.js", "finding.js", "main.js")


def page(content: Content, live: bool = False) -> str:
    """The whole file. `live` is for a server that follows a campaign: the page asks it whether there is more."""
    style, script = _file("style.css"), application()
    blobs, charts = _blobs(content), _has_charts(content)
    code = chart_code() if charts else ""
    hashes = " ".join(f"'sha256-{_hash(text)}'" for text in (script, code) if text)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'sha256-{_hash(style)}'; img-src data:; "
        f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; base-uri 'none'; form-action 'none'"
    )
    blobs += [_blob("charts", code)] if charts else []
    shown = [name for name in SECTIONS if name in ("overview", "method") or name in content.sections]
    links = "".join(f'<a href="#/{name}" data-section="{name}">{SECTIONS[name]}</a>' for name in shown)
    holders = "".join(f'<section id="s-{name}" data-section="{name}" hidden></section>' for name in shown[1:-1])
    return f"""<!doctype html>
<html lang="en" data-live="{int(live)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="mindgap {__version__}">
<title>{text(content.title)} - mindgap</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header><div class="bar"><a class="brand" href="#/overview">mindgap</a><nav aria-label="Sections">{links}</nav>
{'<span id="live" role="status">following</span>' if live else ""}
<button type="button" id="theme" hidden>Dark</button></div></header>
<main id="main" tabindex="-1">
<noscript><p class="note">Findings, runs and charts need JavaScript; this overview does not.</p></noscript>
<section id="s-overview" data-section="overview">{overview(content)}</section>
{holders}<section id="s-finding" data-section="finding" hidden></section>
<section id="s-method" data-section="method">{_method(content)}</section>
</main>
<footer><p>Made with mindgap {__version__}. Keys: <kbd>/</kbd> filter, <kbd>j</kbd> <kbd>k</kbd> next and previous row,
<kbd>Enter</kbd> open.</p></footer>
{"".join(blobs)}
<script>{script}</script>
</body>
</html>
"""


def overview(content: Content) -> str:
    """The first minute of a reader, without a line of script: the answers, the causes, then the proof."""
    tone = TONES.get(content.mood, "open")
    parts = [
        f'<p class="kind">{text(content.subject)}: {text(content.title)}</p>',
        f'<h1 class="conclusion t-{tone}"><span class="glyph" aria-hidden="true">{GLYPHS.get(content.mood, "")}</span>'
        f"<span>{text(content.conclusion)}</span></h1>",
    ]
    if content.answers is not None:
        parts.append(table_html(content.answers, "answers"))
    if content.not_decided:
        lines = "".join(f"<li>{text(line)}</li>" for line in content.not_decided)
        parts.append(f'<h2>What was not decided</h2><ul class="plain">{lines}</ul>')
    rows = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in content.strip)
    parts.append(f'<dl class="strip" aria-label="Environment">{rows}</dl>')
    if content.first:
        parts.append(f'<h2>Fix first</h2><ol class="first">{"".join(map(_entry, content.first))}</ol>')
    if content.figures:
        parts.append(f'<div class="figures">{"".join(map(_figure, content.figures))}</div>')
    parts += [table_html(item) for item in content.tables]
    return "".join(parts)


def _entry(item: Entry) -> str:
    return (
        f'<li><div class="head"><a href="{escape(item.to)}">{text(item.head)}</a> '
        f'<span class="reach">{text(item.reach)}</span></div><p>{text(shortened(item.text, 400))}</p></li>'
    )


def _figure(figure: Figure) -> str:
    """A place for the chart with its legend, and the numbers as a table."""
    shown = [word for word in figure.words if any(bar.word == word for bar in figure.bars)]
    legend = "".join(
        f'<li><span class="swatch b-{TONES[word]}" aria-hidden="true"></span>{GLYPHS.get(word, "")} {text(word)}</li>'
        for word in shown
    )
    counts = {(bar.row, bar.word): bar for bar in figure.bars}
    totals = {bar.row: bar.total for bar in figure.bars}
    rows: list[list[Any]] = []
    for row in figure.rows():
        cells: list[Any] = [row, f"{totals[row]:,}"]
        for word in shown:
            found = counts.get((row, word))
            cells.append(Link(_part(found.count, found.total), found.link) if found else "0")
        rows.append(cells)
    table = table_html(Table(figure.title, ["", "of", *(f"{GLYPHS.get(w, '')} {w}" for w in shown)], rows))
    return (
        f'<figure class="figure" id="figure-{figure.id}"><h2>{text(figure.title)}</h2>'
        f'<p class="quiet">{text(figure.caption)}</p><ul class="legend">{legend}</ul>'
        f'<div class="chart" data-chart="{figure.id}" role="img" aria-label="{text(_spoken(figure))}"></div>'
        f'<details class="numbers" open><summary>Numbers</summary>{table}</details></figure>'
    )


def _spoken(figure: Figure) -> str:
    """The text alternative of a chart."""
    told = [
        f"{row}: " + ", ".join(f"{bar.count} {bar.word}" for bar in figure.bars if bar.row == row)
        for row in figure.rows()
    ]
    return f"{figure.title}. {'; '.join(told)}."


def _part(count: int, total: int) -> str:
    share = 100 * count / total
    return f"{count:,} ({share:.0f}%)" if share >= 10 else f"{count:,} ({share:.1f}%)"


def table_html(table: Table, kind: str = "") -> str:
    head = "".join(f'<th scope="col">{text(title)}</th>' for title in table.titles)
    body = ""
    for row in table.rows:
        first = f'<th scope="row">{text(str(row[0]))}</th>'
        body += f"<tr>{first}{''.join(map(_cell, row[1:]))}</tr>"
    caption = f"<caption>{text(table.caption)}</caption>"
    named = f' class="{kind}"' if kind else ""
    rows = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table{named}>{caption}{rows}</table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, Link):
        tone = f' class="status t-{TONES.get(value.word, "open")}"' if value.word else ""
        glyph = f'<span class="glyph" aria-hidden="true">{GLYPHS.get(value.word, "")}</span>' if value.word else ""
        return f'<td><a{tone} href="{escape(value.to)}">{glyph}{text(value.text)}</a></td>'
    return f"<td>{text(str(value))}</td>"


def _method(content: Content) -> str:
    parts = ""
    for head, said in content.method:
        lines = "".join(f"<p>{text(line)}</p>" for line in said.splitlines())
        parts += f"<h2>{text(head)}</h2>{lines}"
    return f"<h1>Method and limits</h1>{parts}"


def text(value: str) -> str:
    """What models and runtimes said is text, never markup."""
    return escape(plain_text(value))


def _blobs(content: Content) -> list[str]:
    specs: dict[str, Any] = {figure.id: bars_spec(figure, alone=False) for figure in content.figures}
    if any(item.get("trace") for item in content.details):
        specs["trace"] = trace_spec()
    about = {"sections": list(content.sections), "chunk": CHUNK, "ids": [item["id"] for item in content.details],
             "glyphs": GLYPHS, "tones": TONES, "allowed": THRESHOLD}  # fmt: skip
    found = [_blob("about", about), _blob("specs", specs)]
    found += [_blob(f"section-{name}", data) for name, data in content.sections.items()]
    for number, start in enumerate(range(0, len(content.details), CHUNK)):
        found.append(_blob(f"details-{number}", content.details[start : start + CHUNK]))
    return found


def _has_charts(content: Content) -> bool:
    return bool(content.figures) or any(item.get("trace") for item in content.details)


def _blob(name: str, data: Any) -> str:
    """Compressed data inside the page; nothing in base64 can end the element that holds it."""
    raw = data if isinstance(data, str) else json.dumps(plain(data), allow_nan=False, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(raw.encode("utf-8", "replace"), 9)).decode()
    return f'<script type="text/x-mindgap" id="data-{name}">{packed}</script>\n'


@functools.cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def application() -> str:
    """The page's own script."""
    return '(() => {\n"use strict";\n' + "\n".join(map(_file, _SCRIPTS)) + "})();\n"


def _hash(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
