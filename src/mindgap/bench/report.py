"""How large the page of a large campaign is, and how long a reader waits for it."""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from mindgap.bench.browsing import browser
from mindgap.bench.made_campaign import PLATFORMS, write_campaign
from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.report.page.of_campaign import campaign_content
from mindgap.report.page.render import page

OPENINGS: Final = 3
_PAINTED: Final = """
const done = arguments[0];
const look = () => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  paint && document.documentElement.dataset.ready ? done([paint.startTime, performance.now()]) : setTimeout(look, 10);
};
look();
"""
_FILTERED: Final = """
const done = arguments[0];
const field = document.querySelector("#filter-runs");
const before = document.querySelector("#s-runs .count").textContent;
const start = performance.now();
field.value = "p:openvino v:diverges";
field.dispatchEvent(new Event("input"));
const look = () => {
  const now = document.querySelector("#s-runs .count");
  now && now.textContent !== before ? done(performance.now() - start) : setTimeout(look, 5);
};
look();
"""


def measure(tell: Tell, variants: int = 100_000, seed: int = 0) -> Measurement:
    """Write a campaign with the real ledger, make its page, and open it in a real browser."""
    counts = sorted({max(100, variants // 100), variants})
    with tempfile.TemporaryDirectory() as folder:
        rows = [_row(Path(folder), count, seed, tell) for count in counts]
    smallest, largest = rows[0], rows[-1]
    ratio = largest["opened s"] / smallest["opened s"]
    return Measurement(
        "report",
        "size of a campaign's page, and how long a reader waits for it",
        f"campaigns drawn from seed {seed}, through the real ledger, on {', '.join(PLATFORMS)}; headless Chromium, file://",
        rows,
        f"{largest['variants']:,} variants: {largest['page MB']} MB (aim: under 5), opened in {largest['opened s']} s "
        f"(aim: under 2), {ratio:.1f} times as long as {smallest['variants']:,}; the page itself computes "
        f"{largest['CPU s to open']} s. Times are medians of {OPENINGS} openings, each in a new browser, at a load of "
        f"{largest['load']} on {os.cpu_count()} cores",
    )


def _row(folder: Path, count: int, seed: int, tell: Tell) -> Row:
    directory, file = folder / str(count), folder / f"{count}.html"
    tell("ledger", f"{count:,} variants")
    write_campaign(directory, count, seed, explained=60)
    tell("page", f"{count:,} variants")
    start = time.perf_counter()
    content = campaign_content(directory)
    text = page(content)
    made_s = time.perf_counter() - start
    file.write_text(text, encoding="utf-8")
    tell("browser", f"{count:,} variants")
    seen = []
    for _ in range(OPENINGS):
        with browser() as driver:
            seen.append(_opened(driver, file))
    painted, opened, filtered, cpu_s = (statistics.median(values) for values in zip(*seen))
    ledger = sum(path.stat().st_size for path in directory.glob("ledger.sqlite*"))
    return {
        "variants": count,
        "findings": content.sections["findings"]["total"],
        "ledger MB": round(ledger / 1e6, 1),
        "page MB": round(len(text.encode()) / 1e6, 2),
        "made s": round(made_s, 1),
        "first paint s": round(painted / 1000, 2),
        "opened s": round(opened / 1000, 2),
        "filtered s": round(filtered / 1000, 2),
        "CPU s to open": round(cpu_s, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def _opened(driver: Any, file: Path) -> tuple[float, float, float, float]:
    """Milliseconds to the first paint, until the page is ready, and to filter the raw table; CPU seconds to open it."""
    driver.execute_cdp_cmd("Performance.enable", {})
    driver.get(file.as_uri())
    painted, opened = driver.execute_async_script(_PAINTED)
    cpu_s = _thread_s(driver)
    driver.get(f"{file.as_uri()}#/runs")
    driver.execute_async_script(
        "const done = arguments[0]; const look = () => "
        "document.querySelector('#s-runs .count') ? done() : setTimeout(look, 10); look();"
    )
    return float(painted), float(opened), float(driver.execute_async_script(_FILTERED)), cpu_s


def _thread_s(driver: Any) -> float:
    """CPU time of the page's main thread so far: what the clock would say on a machine that nobody else uses."""
    found = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float({item["name"]: item["value"] for item in found}.get("ThreadTime", math.nan))
