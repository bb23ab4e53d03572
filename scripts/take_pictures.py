"""Screenshots of a campaign's report: `python scripts/take_pictures.py CAMPAIGN FOLDER`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mindgap.bench.browsing import browser, resize
from mindgap.campaign.reader import read
from mindgap.report.page.findings import page_id
from mindgap.report.page.of_campaign import campaign_content
from mindgap.report.page.render import page

WIDTH, HIGHEST = 1280, 1600
LONGEST = 2600
"""For the page of a finding: its chart and its graph belong together."""

ENDS = """
const shown = document.querySelector('section:not([hidden])');
const whole = e => e.matches('.figure') || (!e.closest('.figure') && !e.querySelector('.figure, li, tr'));
const parts = [...shown.querySelectorAll(':scope > *, .figure, li, tr')].filter(whole);
const boxes = parts.map(e => e.getBoundingClientRect()).map(box => [box.top + scrollY, box.bottom + scrollY]);
const cut = end => boxes.some(([top, bottom]) => top < end && end < bottom);
const space = end => Math.max(8, Math.min(24, ...boxes.map(([top]) => top - end).filter(gap => gap >= 0)));
const ends = boxes.filter((_, n) => !parts[n].matches('h1, h2, .with-copy')).map(([, bottom]) => bottom);
return ends.filter(end => !cut(end)).map(end => end + space(end));
"""
"""Where a picture may end without cutting something in two."""


def take(driver: Any, file: Path, to: str, target: Path, highest: int = HIGHEST) -> None:
    driver.get("about:blank")
    driver.get(file.as_uri() + to)
    for _ in range(600):
        if driver.execute_script("return !!document.documentElement.dataset.ready && "
                                 "!document.querySelector('section:not([hidden]) [data-drawn=\"0\"]')"):  # fmt: skip
            break
        time.sleep(0.1)
    time.sleep(1)  # charts settle
    width = driver.execute_script("return innerWidth")
    resize(driver, width, int(max(end for end in driver.execute_script(ENDS) if end <= highest)))
    driver.save_screenshot(str(target))
    resize(driver, width, 900)


if __name__ == "__main__":
    campaign, folder = Path(sys.argv[1]), Path(sys.argv[2])
    findings = [(page_id(f, n), f.explanation) for n, f in enumerate(read(campaign).findings)]
    traced = {name: len(found.trace) for name, found in findings if found is not None}
    shown = max(traced, key=lambda name: min(traced[name], 60), default=findings[0][0])
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "report.html"
        file.write_text(page(campaign_content(campaign)), encoding="utf-8")
        with browser(WIDTH) as driver:
            take(driver, file, "", folder / "report.png")
            take(driver, file, f"#/finding/{shown}", folder / "report-finding.png", LONGEST)
            take(driver, file, "#/consistency", folder / "report-consistency.png", 1000)
        with browser(WIDTH, dark=True) as driver:
            take(driver, file, "", folder / "report-dark.png")
        with browser(390) as driver:
            take(driver, file, "", folder / "report-phone.png")
