"""A browser for the tests of the page."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.page import render
from tests.support.spark.sample_result import sample_comparison, sample_result

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = Path("/usr/bin/chromium")
# No sandbox, for there is none in a container; nothing in the background, so that no request is the browser's own.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium with a temporary profile. Playwright keeps a loop running, which no other module may meet."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'sluice-mqtt[browser]'")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of one run and of two runs, as files."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"one": [sample_result()], "two": sample_comparison()}
    for name, results in made.items():
        (folder / f"{name}.html").write_text(render(results), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}
