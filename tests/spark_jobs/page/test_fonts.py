"""The page with wide fonts, with narrow ones, and where no package has brought any."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.page import render
from tests.support.looking import FONTS, LABELS_THAT_COLLIDE, STICKS_OUT, Opened, launched
from tests.support.spark.sample_result import sample_comparison, sample_result

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.once

PHONE, DESK = 390, 1280
SLOW = pytest.mark.slow


@pytest.fixture(scope="module", params=list(FONTS))
def browser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Browser]":
    """A browser that has these fonts only."""
    folder = Path(FONTS[request.param])
    if request.param != "none" and not folder.exists():
        pytest.skip(f"there is no {folder}: apt-get install fonts-{request.param}")
    own = tmp_path_factory.mktemp("fonts")
    settings = own / "fonts.conf"
    settings.write_text(f"<fontconfig><dir>{folder}</dir><cachedir>{own}</cachedir></fontconfig>")
    with launched(settings) as running:
        yield running


def wrong(browser: "Browser", page: Path, width: int) -> list[str]:
    """What sticks out or lies on other text in a window of this width."""
    with Opened(browser, page.as_uri(), viewport={"width": width, "height": 900}, offline=True) as seen:
        return [*seen.wrong(STICKS_OUT), *seen.wrong(LABELS_THAT_COLLIDE)]


@pytest.mark.parametrize("width", [PHONE, pytest.param(DESK, marks=SLOW)])
@pytest.mark.parametrize("kind", [*(pytest.param(each, marks=SLOW) for each in ("one", "client", "index")), "two"])
def test_text_fits_whatever_the_font(browser: "Browser", pages: dict[str, Path], kind: str, width: int) -> None:
    """No text sticks out of the page or lies on other text."""
    assert wrong(browser, pages[kind], width) == []


@pytest.mark.parametrize("number", [pytest.param(1, marks=SLOW), 2])
def test_long_labels_are_cut_by_the_browser(browser: "Browser", tmp_path: Path, number: int) -> None:
    """Labels of 500 wide letters, of one run and of two, fit on a phone."""
    page = tmp_path / "report.html"
    results = [sample_result("w" * 500)] if number == 1 else sample_comparison()
    page.write_text(render([replace(each, facts=replace(each.facts, label="w" * 500)) for each in results]))
    assert wrong(browser, page, PHONE) == []
