"""The page in a real browser, opened from a file: sections, filters, links, keys, themes, and hostile names."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from mindgap.bench.browsing import errors, resize
from mindgap.report import serving
from mindgap.report.comparison import compare
from mindgap.report.page.of_campaign import campaign_content
from mindgap.report.page.of_results import comparison_content, content_of
from mindgap.report.page.render import page
from mindgap.report.results import results_of
from tests.report.page.conftest import HOSTILE
from tests.report.page.test_content import OPERATORS

WAIT_S = 120.0  # a loaded machine draws the first chart late


class Reader:
    """Somebody who looks at the page."""

    def __init__(self, driver: Any, file: Path) -> None:
        self.driver, self.file = driver, file

    def go(self, to: str) -> None:
        """Open an address as a link that was sent: in a page that is loaded anew."""
        errors(self.driver)
        self.driver.get("about:blank")
        self.driver.get(self.file.as_uri() + to)
        ready = "return decodeURIComponent(document.documentElement.dataset.ready || '')"
        self.until(lambda: self.js(ready) == unquote(to or "#"), f"{to} is ready")

    def js(self, code: str, *given: Any) -> Any:
        return self.driver.execute_script(code, *given)

    def texts(self, selector: str) -> list[str]:
        return list(self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector))

    def until(self, holds: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < deadline, f"waited for: {what}; {errors(self.driver)}"
            time.sleep(0.05)

    def keys(self, text: str) -> None:
        for key in text:
            self.js(
                "(document.activeElement || document.body).dispatchEvent("
                "new KeyboardEvent('keydown', {key: arguments[0], bubbles: true, cancelable: true}))",
                {"\n": "Enter"}.get(key, key),
            )

    def address(self) -> str:
        return str(self.js("return location.hash"))


@pytest.fixture
def reader(chromium: Any, page_file: Path) -> Reader:
    resize(chromium, 1280, 900)
    return Reader(chromium, page_file)


def test_every_section_renders_without_a_complaint(reader: Reader) -> None:
    for section, needle in (
        ("overview", "Fix first"),
        ("consistency", "compare with"),
        ("findings", "One row per root cause"),
        ("runs", "What each platform did"),
        ("method", "How verdicts are made"),
    ):
        reader.go(f"#/{section}")
        shown = reader.js("return document.querySelector('main > section:not([hidden])').innerText")
        assert needle in shown, section
        assert reader.texts("nav a[aria-current]") == [
            {"method": "Method and limits"}.get(section, section.capitalize())
        ]
        assert errors(reader.driver) == [], section


def test_charts_are_drawn_and_their_bars_lead_to_the_rows_behind_them(reader: Reader) -> None:
    reader.go("")
    left = "return document.querySelectorAll('[data-chart]:not([data-drawn=\"1\"])').length"
    reader.until(lambda: reader.js(left) == 0, "charts")
    assert reader.js("return document.querySelectorAll('[data-chart] svg').length") == 5
    assert errors(reader.driver) == []
    bars = reader.driver.find_elements("css selector", "[data-chart=consistency] svg .mark-rect path")
    (bar,) = [bar for bar in bars if re.search("openvino: .* diverges", str(bar.get_attribute("aria-label")))]
    bar.click()
    reader.until(
        lambda: reader.address().startswith("#/runs?") and reader.texts("#s-runs tbody tr"), "the rows behind it"
    )
    verdicts = set(reader.texts("#s-runs tbody td:nth-child(5)"))
    assert verdicts and all("diverges" in text for text in verdicts)
    assert all("openvino" in text for text in reader.texts("#s-runs tbody td:nth-child(3)"))


def test_a_filter_is_a_link_and_a_link_is_a_filter(reader: Reader) -> None:
    reader.go("#/findings")
    every = len(reader.texts("#s-findings tbody tr"))
    reader.js(
        "const f = document.querySelector('#filter-findings'); f.focus(); f.value = 'p:openvino k:nonfinite';"
        "f.dispatchEvent(new Event('input'))"
    )
    reader.until(lambda: "q=" in reader.address(), "the filter is in the address")
    found = reader.texts("#s-findings tbody tr")
    assert 0 < len(found) < every and all("openvino" in row and "nonfinite" in row for row in found)
    assert reader.js("return document.activeElement.id") == "filter-findings", "typing goes on"
    reader.go(reader.address())
    assert reader.texts("#s-findings tbody tr") == found
    assert reader.js("return document.querySelector('#filter-findings').value") == "p:openvino k:nonfinite"


def test_sorting_is_in_the_address(reader: Reader) -> None:
    reader.go("#/findings?sort=-models")
    counts = [int(text) for text in reader.texts("#s-findings tbody td:nth-child(6)")]
    assert counts == sorted(counts, reverse=True)
    assert (
        reader.js("return document.querySelector('#s-findings th[aria-sort]').getAttribute('aria-sort')")
        == "descending"
    )


def test_a_finding_has_a_page_with_its_chart_its_slice_and_its_experiments(reader: Reader) -> None:
    reader.go('#/findings?q=cause:"exceptional+values"')
    explained = reader.texts("#s-findings tbody td a")
    assert explained
    reader.go(f"#/finding/{explained[0]}")
    reader.until(lambda: reader.js("return document.querySelector('#s-finding .chart svg')"), "the chart")
    shown = reader.js("return document.querySelector('#s-finding').innerText")
    for part in (
        "Where the error comes from",
        "Worst elements",
        "output[0, 1]",
        ".py:",
        "What makes it vanish",
        "Experiments",
        "Layer by layer",
    ):
        assert part in shown, part
    assert "Around the operator" in shown or "The program" in shown
    assert reader.js("return document.querySelectorAll('#s-finding .picture .g-culprit').length") == 1
    assert errors(reader.driver) == []


def test_any_platform_can_be_the_one_to_compare_with(reader: Reader) -> None:
    reader.go("#/consistency?ref=openvino")
    heads = reader.texts("#s-consistency thead th")
    assert "openvino" not in heads and "eager" in heads and "inductor" in heads
    assert "openvino's" in reader.texts("#s-consistency caption")[0]
    reader.go("#/consistency?kind=fragment")
    assert reader.js("return document.querySelector('#heat-kind').value") == "fragment"
    words = reader.texts("#s-consistency tbody td")
    assert any("diverges" in word for word in words) and all(word.strip() for word in words)


def test_a_hostile_model_stays_text(reader: Reader) -> None:
    for section in ("overview", "consistency", "findings", "runs", "finding/F-01"):
        reader.go(f"#/{section}")
        assert "hacked" not in reader.driver.title
        assert reader.js("return document.querySelectorAll('main img, main b[onclick], main script').length") == 0
        assert not reader.js(r"return /[\u202e\x1b]/.test(document.body.innerText)"), "nothing turns text around"
    reader.go("#/consistency?kind=variant")
    (shown,) = (name for name in reader.texts("#s-consistency tbody th") if name.startswith(HOSTILE[:50]))
    assert len(shown) == 160 and shown.endswith("y…"), "a name may be as long as it wants"
    row = "[...document.querySelectorAll('#s-consistency tbody tr')].find(e => e.textContent.startsWith('<script>'))"
    reader.js(f"{row}.querySelector('td a').click()")
    reader.until(lambda: reader.texts("#s-runs tbody tr"), "its cells lead to its rows all the same")
    assert all(name.startswith(HOSTILE[:50]) for name in reader.texts("#s-runs tbody td:nth-child(2)"))


def test_a_list_fits_the_width_of_a_screen(reader: Reader) -> None:
    reader.go("#/findings")
    assert (
        reader.js("const e = document.querySelector('#s-findings .scroll'); return e.scrollWidth - e.clientWidth") <= 0
    )


def test_the_policy_stops_what_would_be_injected(reader: Reader) -> None:
    reader.go("")
    reader.js(
        "const s = document.createElement('script'); s.textContent = 'window.stolen = 1'; document.body.append(s)"
    )
    reader.js("const i = document.createElement('div'); i.innerHTML = '<img src=x onerror=\"window.stolen = 1\">';"
              "document.body.append(i)")  # fmt: skip
    time.sleep(0.3)
    assert reader.js("return window.stolen") is None
    assert any("Content Security Policy" in text for text in errors(reader.driver))


def test_keys(reader: Reader) -> None:
    reader.go("#/findings")
    reader.keys("jjk")
    assert (
        reader.js("return [...document.querySelectorAll('#s-findings tbody tr')].indexOf(document.activeElement)") == 0
    )
    reader.keys("\n")
    reader.until(lambda: reader.address().startswith("#/finding/F-"), "Enter opens the finding")
    reader.go("")
    reader.keys("j")
    assert reader.js("return document.activeElement.matches('ol.first a')"), "what to fix first has keys, too"
    reader.go("#/findings")
    reader.keys("/")
    assert reader.js("return document.activeElement.id") == "filter-findings"


def test_dark_is_a_switch_that_a_link_keeps(reader: Reader) -> None:
    reader.go("")
    light = reader.js("return getComputedStyle(document.documentElement).backgroundColor")
    reader.js("document.querySelector('#theme').click()")
    reader.until(lambda: reader.js("return document.documentElement.dataset.theme") == "dark", "dark")
    assert reader.js("return getComputedStyle(document.documentElement).backgroundColor") != light
    assert "theme=dark" in reader.address()
    assert all(
        "theme=dark" in str(link)
        for link in reader.js("return [...document.querySelectorAll('nav a')].map(a => a.hash)")
    )


def test_a_phone_scrolls_in_one_direction_only(reader: Reader) -> None:
    resize(reader.driver, 390, 800)
    for section in ("overview", "consistency", "findings", "runs", "finding/F-01", "method"):
        reader.go(f"#/{section}")
        wide = reader.js("return document.documentElement.scrollWidth")
        high = reader.js("return document.documentElement.scrollHeight")
        assert high < 20_000, f"{section} is {high} high"
        assert wide <= 390, f"{section} is {wide} wide"


def test_a_list_on_a_phone_is_read_row_by_row(reader: Reader) -> None:
    resize(reader.driver, 390, 800)
    reader.go("#/findings")
    cut = (
        "return [...document.querySelectorAll('#s-findings tbody td')]"
        ".filter(e => e.getBoundingClientRect().right > 390).length"
    )
    assert reader.js(cut) == 0, "nothing is cut off"
    assert not reader.js("return document.querySelector('#s-findings thead').offsetHeight")


def test_every_platform_is_answered_and_leads_to_its_rows(reader: Reader) -> None:
    reader.go("")
    assert "✗" in reader.texts("h1.conclusion")[0]
    assert {"inductor", "onnxruntime", "openvino", "eager@scalar"} == set(reader.texts("table.answers tbody th"))
    row = "document.querySelectorAll('table.answers tbody tr')[0].querySelectorAll('a')[1]"
    counted = int(reader.js(f"return {row}.innerText.match(/([0-9,]+) of/)[1]").replace(",", ""))
    reader.js(f"{row}.click()")
    reader.until(lambda: reader.texts("#s-runs tbody tr"), "the rows behind it")
    assert reader.texts("#s-runs .count")[0].startswith(f"{counted} of")


def test_paper_is_light_and_holds_the_numbers(reader: Reader) -> None:
    reader.go("#/overview?theme=dark")
    dark = reader.js("return getComputedStyle(document.documentElement).backgroundColor")
    reader.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert reader.js("return getComputedStyle(document.documentElement).backgroundColor") != dark
        assert reader.js("return getComputedStyle(document.querySelector('header')).display") == "none"
        reader.js("dispatchEvent(new Event('beforeprint'))")
        assert reader.js("return document.querySelectorAll('details.numbers:not([open])').length") == 0
    finally:
        reader.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_trace_without_inherited_errors_is_drawn_without_a_complaint(
    chromium: Any, campaign: Path, tmp_path: Path
) -> None:
    content = campaign_content(campaign)
    shown = next(item for item in content.details if len(item.get("trace", ())) > 1)
    shown["trace"] = [[*step[:5], None, *step[6:]] for step in shown["trace"]]  # type: ignore[index]
    file = tmp_path / "report.html"
    file.write_text(page(content), encoding="utf-8")
    reader = Reader(chromium, file)
    reader.go(f"#/finding/{shown['id']}")
    reader.until(lambda: reader.js("return document.querySelector('#s-finding .chart[data-drawn=\"1\"]')"), "the chart")
    assert errors(chromium) == []
    drawn = reader.js("return document.querySelector('#s-finding .chart svg').textContent")
    assert "allowed" in drawn and "of the whole so far" not in drawn


def test_operators_and_changes_are_filtered_and_lead_on(chromium: Any, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(OPERATORS))
    cells = [dict(cell) for cell in OPERATORS["observed"]["cells"]]  # type: ignore[index,call-overload]
    cells[0]["grade"] = "unsupported"
    new.write_text(json.dumps({**OPERATORS, "observed": {"cells": cells}}))
    file = tmp_path / "report.html"
    file.write_text(page(content_of(old)), encoding="utf-8")
    reader = Reader(chromium, file)
    reader.go("#/operators")
    shown = reader.texts("#s-operators tbody td:nth-child(n+3)")
    assert [("not exercised" in text, "agrees" in text) for text in shown] == [
        (False, True), (True, False), (True, False), (False, False),
    ]  # fmt: skip
    assert reader.js("return document.querySelectorAll('#s-operators td.none').length") == 2
    reader.js("document.querySelector('#s-operators tbody tr:nth-child(2) td:nth-child(4) a').click()")
    reader.until(lambda: len(reader.texts("#s-operators tbody tr")) == 1, "the cell alone")
    assert "called: 1 wrong, 3 rounding" in reader.texts("#s-operators tbody tr")[0]
    file.write_text(page(comparison_content(compare(results_of(old), results_of(new)))), encoding="utf-8")
    reader.go("#/changes?q=is:appeared")
    assert len(reader.texts("#s-changes tbody tr")) == 1 and "aten.amax" in reader.texts("#s-changes tbody tr")[0]
    reader.go("#/changes?q=is:fixed")
    assert reader.texts("#s-changes tbody tr") == [] and errors(chromium) == []


def test_a_followed_page_changes_and_stays_where_its_reader_is(
    chromium: Any, campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "FRESH_S", 0.0)
    content, count = campaign_content(campaign), [1]
    with serving.serve(lambda: page(replace(content, title=f"state {count[0]}"), live=True), "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        reader = Reader(chromium, campaign)
        resize(chromium, 1280, 600)
        chromium.get(f"http://127.0.0.1:{server.server_address[1]}/#/method")
        reader.until(lambda: reader.js("return document.documentElement.dataset.ready"), "the page")
        reader.until(lambda: "live, as of" in reader.texts("#live")[0], "it is followed")
        reader.js("scrollTo(0, 200)")
        count[0] = 2
        reader.until(lambda: "state 2" in reader.driver.title, "what is new")
        reader.until(lambda: reader.js("return scrollY") == 200, "the same place")
        assert reader.address() == "#/method" and errors(chromium) == []
        server.shutdown()
    reader.until(lambda: "no longer followed" in reader.texts("#live")[0], "the server has ended")


def test_the_overview_is_read_without_script(reader: Reader) -> None:
    reader.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        reader.driver.get("about:blank")
        reader.driver.get(reader.file.as_uri())
        body = reader.driver.find_element("css selector", "main").text
    finally:
        reader.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    for part in ("Fix first", "What was not decided", "What runs", "seed", "need JavaScript", "openvino"):
        assert part in body, part


def test_what_is_downloaded_is_what_is_shown(reader: Reader) -> None:
    reader.go("#/runs?q=p:openvino+v:diverges")
    reader.js(
        "window.kept = []; const make = URL.createObjectURL; URL.createObjectURL = (blob) => {"
        "blob.text().then(text => window.kept.push(text)); return make(blob); };"
        "document.querySelectorAll('#s-runs .count button').forEach(button => button.click())"
    )
    reader.until(lambda: len(reader.js("return window.kept")) == 2, "two files")
    (table,) = [text for text in reader.js("return window.kept") if text.startswith("program,")]
    (listed,) = [json.loads(text) for text in reader.js("return window.kept") if text.startswith("[")]
    assert len(table.strip().splitlines()) == len(listed) + 1
    assert {row["verdict"] for row in listed} == {"diverges"}
    assert any(row["error / rounding"] == "inf" for row in listed), "infinity survives"
