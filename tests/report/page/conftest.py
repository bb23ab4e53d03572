"""One campaign with a hostile model, written by the real ledger, and one browser for all tests of pages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mindgap.bench.browsing import INSTALL, browser, browser_path
from mindgap.bench.made_campaign import write_campaign
from mindgap.report.page.of_campaign import campaign_content
from mindgap.report.page.render import page

HOSTILE = "<script>document.title='hacked'</script><b onclick=x> \"\u202etxt.exe " + "y" * 600
SAID = "<img src=x onerror=\"document.title='hacked'\"> </script><!-- \u202e\x1b[31m" + "z" * 300 + " "


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "campaign"
    write_campaign(folder, 400, 1, name=HOSTILE, message=SAID, explained=12)
    return folder


@pytest.fixture(scope="session")
def page_file(campaign: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("altair")
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page(campaign_content(campaign)), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A skip where there is no browser; MINDGAP_REQUIRE_BROWSER, which CI sets, makes that a failure."""
    required = bool(os.environ.get("MINDGAP_REQUIRE_BROWSER"))
    try:
        import selenium  # noqa: F401
    except ImportError:
        if required:
            raise
        pytest.skip(f"no selenium: {INSTALL}")
    if browser_path() is None:
        if required:
            pytest.fail(f"MINDGAP_REQUIRE_BROWSER is set and there is no chromium: {INSTALL}")
        pytest.skip(f"no chromium: {INSTALL}")
    with browser() as driver:
        yield driver
