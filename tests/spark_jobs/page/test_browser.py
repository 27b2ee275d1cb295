"""The page in a browser: wide and narrow, light and dark, in print, and without its script."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.looking import (
    EMPTY_PLOTS,
    LABELS_THAT_COLLIDE,
    SCROLLBARS,
    STICKS_OUT,
    STILL_FOLDED,
    Opened,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.once
SLOW = pytest.mark.slow

PHONE, DESK = 390, 1280
PAPER = 703  # an A4 page between its margins, in CSS pixels
FEWEST_BYTES = 40_000  # of a screenshot that is not blank


def opened(browser: "Browser", path: Path, width: int, scheme: str = "light", *, script: bool = True) -> Opened:
    """A page in a window of this width."""
    return Opened(
        browser,
        path.as_uri(),
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        java_script_enabled=script,
        offline=True,
    )


def screenshot(name: str, beside: Path) -> Path:
    """The path of a screenshot: in the folder SLUICE_SCREENSHOTS, or a temporary one."""
    folder = Path(os.environ.get("SLUICE_SCREENSHOTS") or beside)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.png"


@pytest.mark.parametrize(
    ("kind", "width", "scheme"),
    [
        pytest.param(kind, width, scheme, marks=[] if (width == PHONE) == (kind in ("two", "index")) else SLOW)
        for kind in ("one", "two", "client", "index")
        for width, scheme in ((PHONE, "light"), (DESK, "dark"))
    ],
)
def test_the_page_looks_right(
    browser: "Browser", pages: dict[str, Path], tmp_path: Path, kind: str, width: int, scheme: str
) -> None:
    """No overflow, no empty plot, no overlapping labels, no console errors, no requests."""
    with opened(browser, pages[kind], width, scheme) as seen:
        picture = screenshot(f"report-{kind}-{width}-{scheme}", tmp_path)
        seen.page.screenshot(path=picture)
        if picture.parent != tmp_path:
            whole = screenshot(f"report-{kind}-{width}-{scheme}-whole", tmp_path)
            seen.page.screenshot(path=whole, full_page=True)
        assert seen.wrong(STICKS_OUT) == []
        assert seen.wrong(EMPTY_PLOTS) == []
        assert seen.wrong(LABELS_THAT_COLLIDE) == []
        assert seen.complaints == []
        assert seen.requests == [pages[kind].as_uri()]
        paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(255, 254, 252)" if scheme == "light" else "rgb(20, 22, 26)")
        assert picture.stat().st_size > FEWEST_BYTES


def test_the_index_says_what_was_found_without_scrolling(browser: "Browser", pages: dict[str, Path]) -> None:
    """The sentence of each report is within a window of usual width, before the figures."""
    with opened(browser, pages["index"], DESK) as seen:
        box = seen.page.locator("td.wrap").first.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] < DESK


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one", "two", "client", "index"])
def test_any_width_will_do(browser: "Browser", pages: dict[str, Path], kind: str) -> None:
    """No overflow from small phones to wide screens, collapsed or expanded."""
    with opened(browser, pages[kind], PHONE) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        for width in (320, 360, 761, 1000, 2000):
            seen.page.set_viewport_size({"width": width, "height": 900})
            assert seen.wrong(STICKS_OUT) == [], width
            assert seen.wrong(LABELS_THAT_COLLIDE) == [], width


def texts(cells: "Locator") -> list[str]:
    """The texts of cells."""
    return [text.strip() for text in cells.all_text_contents()]


def test_tables_sort_by_mouse_and_keyboard(browser: "Browser", pages: dict[str, Path]) -> None:
    """A click on a head sorts its column, largest first, then in reverse; only that column is marked."""
    with opened(browser, pages["one"], DESK) as seen:
        table = seen.page.locator("#worst-0 table")
        head = table.locator("thead th", has_text="dropped")
        cells = table.locator("tbody tr td:nth-child(6)")
        rows = table.locator("tbody tr").count()
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        numbers = [int(text.replace(",", "")) for text in texts(cells)]
        assert numbers == sorted(numbers, reverse=True)
        head.get_by_role("button").press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert texts(cells) == [f"{number:,}" for number in reversed(numbers)]
        name = table.locator("thead th", has_text="client id")
        name.get_by_role("button").press("Space")
        assert (name.get_attribute("aria-sort"), head.get_attribute("aria-sort")) == ("ascending", "none")
        assert table.locator("tbody tr").count() == rows
        assert seen.complaints == []


def test_tables_filter(browser: "Browser", pages: dict[str, Path]) -> None:
    """The filter keeps rows with the text, ignoring case, and shows their number; an empty one shows all."""
    with opened(browser, pages["one"], DESK) as seen:
        sheet = seen.page.locator("#worst-0")
        field = sheet.get_by_role("searchbox", name="Filter: Lowest delivery ratio")
        field.fill("CONGESTED")
        rows = sheet.locator("tbody tr:visible")
        assert rows.count() == 4
        assert sheet.locator("output").text_content() == "4 of 20"
        field.fill("<script>")
        assert rows.count() == 1
        field.fill("")
        assert rows.count() == 20
        assert sheet.locator("output").text_content() == ""


@pytest.mark.slow
def test_missing_values_sort_last(browser: "Browser", pages: dict[str, Path]) -> None:
    """Unknown values come last in both sort orders."""
    with opened(browser, pages["one"], DESK) as seen:
        table = seen.page.locator("#gate-table table")
        button = table.locator("thead th", has_text="delay p99").get_by_role("button")
        cells = table.locator("tbody tr td:nth-child(7)")
        for _ in range(2):
            button.click()
            assert texts(cells)[2:] == ["–"] * 4


@pytest.mark.slow
def test_a_link_into_something_folded_unfolds_it(browser: "Browser", pages: dict[str, Path]) -> None:
    """A link to a collapsed table expands it."""
    with Opened(browser, f"{pages['one'].as_uri()}#hours", viewport={"width": DESK, "height": 900}) as seen:
        assert seen.page.locator("#hours table").is_visible()


def test_without_its_script_the_page_is_all_there(browser: "Browser", pages: dict[str, Path]) -> None:
    """Without scripts tables are static, and there are no controls."""
    with opened(browser, pages["one"], DESK, script=False) as seen:
        assert seen.page.locator("button, input").count() == 0
        assert seen.page.locator("#worst-0 tbody tr:visible").count() == 20
        assert seen.page.locator("svg.plot:visible").count() > 20
        seen.page.locator("summary", has_text="Hour by hour").click()
        assert seen.page.locator("#hours tbody tr:visible").count() == 24


@pytest.mark.parametrize("kind", [pytest.param("one", marks=SLOW), "two"])
def test_one_can_zoom_into_plots_over_time(browser: "Browser", pages: dict[str, Path], kind: str) -> None:
    """Dragging over a chart shows that range in all charts of the figure; a double click shows all, print the plot."""
    with opened(browser, pages[kind], DESK) as seen:
        figure = seen.page.locator("#fairness figure")
        plot, zoom = figure.locator("svg.plot:visible"), figure.locator(".zoom")
        figure.get_by_role("button", name="Zoom").click()
        charts = zoom.locator(".u-over")
        assert (charts.count(), plot.count()) == (2, 0)
        whole = shown(zoom)
        charts.first.scroll_into_view_if_needed()
        box = charts.first.bounding_box()
        assert box is not None
        seen.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40)
        seen.page.mouse.down()
        seen.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40, steps=4)
        seen.page.mouse.up()
        part = shown(zoom)
        assert part[1] - part[0] == pytest.approx((whole[1] - whole[0]) / 4, rel=0.02)
        assert part[0] - whole[0] == pytest.approx((whole[1] - whole[0]) / 4, rel=0.02)
        charts.first.dblclick()
        assert shown(zoom) == pytest.approx(whole)
        assert seen.wrong(STICKS_OUT) == []
        seen.page.emulate_media(media="print")
        assert (plot.count(), charts.first.is_visible()) == (1, False)
        seen.page.emulate_media(media="screen")
        figure.get_by_role("button", name="Back to the plot").click()
        assert (plot.count(), charts.count()) == (1, 0)
        assert (seen.complaints, seen.requests) == ([], [pages[kind].as_uri()])


def shown(zoom: "Locator") -> tuple[float, float]:
    """The range of time that charts show."""
    first, last = (zoom.get_attribute("data-shown") or "").split()
    return float(first), float(last)


@pytest.mark.parametrize("kind", [pytest.param("one", marks=SLOW), "two"])
def test_paper_shows_everything(browser: "Browser", pages: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """In print everything is expanded and fits, on white, even in a dark browser without the script."""
    with opened(browser, pages[kind], PAPER, "dark") as seen:
        seen.page.emulate_media(media="print")
        assert seen.wrong(STILL_FOLDED) == []
        assert seen.wrong(SCROLLBARS) == []
        assert seen.wrong(STICKS_OUT) == []
        assert seen.wrong(EMPTY_PLOTS) == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= PAPER
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 254, 252)"
        paper = screenshot(f"report-{kind}-print", tmp_path).with_suffix(".pdf")
        seen.page.pdf(path=paper, format="A4", prefer_css_page_size=True)
        assert paper.read_bytes().startswith(b"%PDF")
