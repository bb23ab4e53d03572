"""A real browser without a window: for measuring and testing pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from mindgap.errors import UsageError

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
INSTALL: Final = "apt-get install chromium chromium-driver; pip install selenium"


def browser_path() -> str | None:
    """The browser of this machine; MINDGAP_BROWSER names another one."""
    given = os.environ.get("MINDGAP_BROWSER")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser(width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Any]:
    """A selenium driver of headless Chromium, as wide as asked for, in light or dark."""
    path, driver = browser_path(), shutil.which("chromedriver")
    try:
        webdriver = import_module("selenium.webdriver")
    except ImportError as error:
        raise UsageError("selenium is not installed", hint=INSTALL) from error
    if path is None or driver is None:
        raise UsageError("there is no chromium with its chromedriver", hint=INSTALL)
    options = webdriver.ChromeOptions()
    options.binary_location = path
    # No sandbox: containers that run tests as root have none; the pages are ours.
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = import_module("selenium.webdriver.chrome.service").Service(driver)
    made = webdriver.Chrome(options=options, service=service)
    try:
        made.set_page_load_timeout(180)
        made.set_script_timeout(180)
        resize(made, width, height)
        made.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [_scheme(dark)]})
        yield made
    finally:
        made.quit()


def _scheme(dark: bool) -> dict[str, str]:
    return {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}


def resize(driver: Any, width: int, height: int) -> None:
    """As wide and high as a screen would be."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def errors(driver: Any) -> list[str]:
    """What the browser complained of since the last call."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
