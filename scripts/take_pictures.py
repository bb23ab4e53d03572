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

WIDTH, HIGHEST = 1280, 1500


def take(driver: Any, file: Path, to: str, target: Path, height: int = 0) -> None:
    driver.get("about:blank")
    driver.get(file.as_uri() + to)
    for _ in range(600):
        if driver.execute_script("return !!document.documentElement.dataset.ready && "
                                 "!document.querySelector('section:not([hidden]) [data-drawn=\"0\"]')"):  # fmt: skip
            break
        time.sleep(0.1)
    time.sleep(1)  # charts settle
    whole = driver.execute_script("return document.documentElement.scrollHeight")
    width = driver.execute_script("return innerWidth")
    resize(driver, width, height or min(HIGHEST, whole))
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
            take(driver, file, "", folder / "report.png", 1000)
            take(driver, file, f"#/finding/{shown}", folder / "report-finding.png")
            take(driver, file, "#/consistency", folder / "report-consistency.png", 900)
        with browser(WIDTH, dark=True) as driver:
            take(driver, file, "", folder / "report-dark.png", 1000)
        with browser(390) as driver:
            take(driver, file, "", folder / "report-phone.png")
