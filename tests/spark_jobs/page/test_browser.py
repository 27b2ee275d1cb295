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
MOST_PIXELS = 4_000  # height of a page on a desk before anything is unfolded
UNFOLD = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def opened(browser: "Browser", path: Path, width: int, scheme: str = "light", *, unfold: bool = True) -> Opened:
    """A page in a window of this width, with all sections unfolded."""
    seen = Opened(
        browser, path.as_uri(), viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True
    )
    if unfold:
        seen.page.evaluate(UNFOLD)
    return seen


def within(locator: "Locator") -> bool:
    """Whether an element is within the first screen as a whole."""
    box = locator.bounding_box()
    assert box is not None
    return box["y"] >= 0 and box["y"] + box["height"] <= 800 and box["x"] + box["width"] <= DESK


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
    with opened(browser, pages[kind], width, scheme, unfold=False) as seen:
        picture = screenshot(f"report-{kind}-{width}-{scheme}", tmp_path)
        seen.page.screenshot(path=picture)
        if picture.parent != tmp_path:
            whole = screenshot(f"report-{kind}-{width}-{scheme}-whole", tmp_path)
            seen.page.screenshot(path=whole, full_page=True)
        height = seen.page.evaluate("document.documentElement.scrollHeight")
        assert height < MOST_PIXELS or width == PHONE or kind == "index"
        assert seen.wrong(STICKS_OUT) == []
        seen.page.evaluate(UNFOLD)
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
        table = seen.page.locator("#worst_sessions-table table")
        head = table.locator("thead th", has_text="dropped")
        cells = table.locator("tbody tr td:nth-child(5)")
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
        sheet = seen.page.locator("#worst_sessions-table")
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
        cells = table.locator("tbody tr td:nth-child(8)")
        for _ in range(2):
            button.click()
            assert texts(cells)[2:] == ["–"] * 4


def test_the_first_screen_answers(browser: "Browser", pages: dict[str, Path]) -> None:
    """Headline, five tiles, the table and three closed findings are within 1280 x 800."""
    with opened(browser, pages["one"], DESK, unfold=False) as seen:
        tiles, findings = seen.page.locator(".tile"), seen.page.locator("header .findings details")
        assert (tiles.count(), findings.count()) == (5, 3)
        shown = [seen.page.locator("h1"), *tiles.all(), seen.page.locator("#first"), *findings.all()]
        assert [each.text_content() for each in shown if not within(each)] == []
        assert texts(seen.page.locator("#first thead th")) == [
            "client", "broker", "state", "lost", "since", "cause", "what to do",
        ]  # fmt: skip
        assert seen.page.locator("details[open]").count() == 1  # fairness over time


def test_a_command_is_copied_and_a_finding_opens_on_click(browser: "Browser", pages: dict[str, Path]) -> None:
    """Nothing on the first screen moves by copying."""
    with opened(browser, pages["one"], DESK, unfold=False) as seen:
        seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
        row = seen.page.locator("#first tbody tr").first
        before = row.bounding_box()
        row.get_by_role("button").click()
        row.get_by_role("button", name="Copied: sluice").wait_for()
        assert seen.page.evaluate("navigator.clipboard.readText()") == "sluice ctl session meter/82e0e3-237"
        assert row.bounding_box() == before
        finding = seen.page.locator("header .findings details").first
        assert not finding.locator("em").is_visible()
        finding.locator("summary").click()
        assert "session.slow_consumer can disconnect it" in (finding.locator("em").text_content() or "")
        assert finding.locator("em").is_visible()


def test_a_link_into_something_folded_unfolds_it(browser: "Browser", pages: dict[str, Path]) -> None:
    """A client's name leads to its section, again after that was folded, and by the keyboard."""
    with opened(browser, pages["one"], DESK, unfold=False) as seen:
        table = seen.page.locator("#starved_worst-table")
        assert not table.is_visible()
        link = seen.page.locator("#first tbody a").first
        link.click()
        assert table.is_visible()
        seen.page.locator("#starvation summary").click()
        assert not table.is_visible()
        link.press("Enter")
        assert table.is_visible()
    with Opened(browser, f"{pages['one'].as_uri()}#hours-table", viewport={"width": DESK, "height": 800}) as seen:
        assert seen.page.locator("#hours-table table").is_visible()


def test_the_times_of_findings_are_on_the_time_axis(browser: "Browser", pages: dict[str, Path]) -> None:
    """A bar for each finding that has a time, as wide as that is."""
    with opened(browser, pages["one"], DESK, unfold=False) as seen:
        marks = seen.page.locator("#fairness .wide .found")
        assert texts(marks) == ["Starved", "Served less", "Reconnects"]
        lines = seen.page.locator("#fairness .wide .line")
        whole, bar = lines.last.bounding_box(), marks.nth(1).locator("rect").first.bounding_box()
        assert whole is not None
        assert bar is not None
        hours = 24 * bar["width"] / whole["width"]
        assert hours == pytest.approx(6, abs=0.1)  # from 14:00 to 20:00


def test_without_its_script_the_page_is_all_there(browser: "Browser", pages: dict[str, Path]) -> None:
    """Without scripts tables are static, there are no controls, and sections unfold."""
    where = pages["one"].as_uri()
    with Opened(browser, where, viewport={"width": DESK, "height": 800}, java_script_enabled=False) as seen:
        assert seen.page.locator("button, input").count() == 0
        assert seen.page.locator("#first tbody tr:visible").count() == 5
        for section in ("worst", "evenness"):
            seen.page.locator(f"#{section} summary").click()
        assert seen.page.locator("#worst_sessions-table tbody tr:visible").count() == 20
        assert seen.page.locator("#hours-table tbody tr:visible").count() == 24


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
