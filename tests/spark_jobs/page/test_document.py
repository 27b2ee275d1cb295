"""The page as a whole: complete, well-formed, in order, safe to open."""

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from spark_jobs.measures.layout import LAYOUTS
from spark_jobs.measures.result import Result
from spark_jobs.page import render
from spark_jobs.page.document import LONGEST_LABEL
from tests.support.spark.sample_result import replaced, sample_comparison, sample_result, without
from tests.support.spark.sample_story import HOSTILE, SCRIPT

pytestmark = pytest.mark.once

VOID = {"meta", "rect", "line", "path", "circle", "br"}
MEGABYTE = 1_000_000


class Page(HTMLParser):
    """Parses a page: elements with their attributes, text, and whether each one is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def values(self, attribute: str) -> list[str]:
        """All values of an attribute."""
        return [value for _, attributes in self.elements if (value := attributes.get(attribute))]


@pytest.fixture(scope="module")
def both() -> list[Result]:
    """Two runs."""
    return sample_comparison()


@pytest.fixture(scope="module", params=["one", "two"])
def results(request: pytest.FixtureRequest) -> list[Result]:
    """One run, or two."""
    return [sample_result()] if request.param == "one" else sample_comparison()


@pytest.fixture(scope="module")
def page(results: list[Result]) -> str:
    """Their page."""
    return render(results)


def test_the_page_is_whole(page: str, results: list[Result]) -> None:
    """All sections exist, all elements are closed, ids are unique, and every internal link has a target."""
    found = Page(page)
    ids = found.values("id")
    wanted = {"fairness", "deliveries", "evenness", "worst", "starvation", "mailbox", "ack", "wait", "gate"}
    wanted |= {"latency", "head-of-line", "order", "publishers", "quality", "definitions"}
    assert wanted | ({"changes"} if len(results) > 1 else set()) <= set(ids)
    assert len(ids) == len(set(ids))
    inside = [link for link in found.values("href") if link.startswith("#")]
    assert {link[1:] for link in inside} <= set(ids)


def test_the_page_stays_small(page: str) -> None:
    """Far below 3 MB for any number of sessions, because its tables are bounded."""
    assert len(page.encode()) < MEGABYTE


def test_nothing_is_loaded_and_only_the_one_script_runs(page: str) -> None:
    """The policy allows only the page's style and script, by hash; no handlers, no inline styles."""
    found = Page(page)
    [policy] = [m["content"] or "" for m in found.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        [content] = re.findall(f"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        assert f"{kind}-src 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" in policy
    assert not {"link", "img", "iframe", "object", "form", "base"} & {tag for tag, _ in found.elements}
    markup = re.sub("<script>.*?</script>", "", page, flags=re.DOTALL)  # uPlot names its home in a comment
    assert not re.search(r"https?://|url\(|@import|\sstyle=|\son\w+=\"", markup)


def test_every_table_links_to_its_numbers(page: str, results: list[Result]) -> None:
    """The page links to the CSV of each result table, and to nothing else."""
    links = {link for link in Page(page).values("href") if not link.startswith("#")}
    names = {name for name in LAYOUTS if name != "comparison" or len(results) > 1} | {"starved_sessions"}
    assert links == {f"tables/{name}.csv" for name in names}


def test_the_page_can_be_read_by_ear(page: str) -> None:
    """One first heading, levels without gaps, a title on each plot, a caption on each figure, scopes on each head."""
    found = Page(page)
    levels = [int(tag[1]) for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    drawings = re.findall(r"<svg[^>]*>(?:<title>([^<]*)</title>)?", page)
    hidden = page.count('aria-hidden="true"')
    assert sum(not title for title in drawings) == hidden
    assert page.count("<figcaption") == page.count("<figure")
    assert all(head.get("scope") in ("col", "row") for head in found.all("th"))
    assert all(table.get("aria-labelledby") in found.values("id") for table in found.all("table"))


def test_every_plot_says_how_it_is_read(page: str) -> None:
    """Each figure has an explanation below its title, except small ones."""
    figures = page.count("<figure>")
    assert figures >= 8
    assert page.count("How to read: ") >= figures


def test_what_clients_send_is_text(results: list[Result]) -> None:
    """Tags, quotes, newlines and bidirectional text in names are escaped; titles are bounded."""
    hostile = [replace(result, facts=replace(result.facts, label=f"{SCRIPT}{i}")) for i, result in enumerate(results)]
    shown = render(hostile)
    found = Page(shown)
    assert [tag for tag, _ in found.elements].count("script") == 1
    assert "alert(" in "".join(found.text)
    assert "<script>alert" not in shown
    assert "<img" not in shown
    assert "\u202e" not in shown
    assert max(map(len, found.values("title"))) <= 400
    assert "x" * 401 not in shown
    title = re.search("<title>(.*?)</title>", shown)
    assert title is not None
    assert len(title[1]) < 10 * LONGEST_LABEL


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_keeps_its_place(both: list[Result], name: str) -> None:
    """Any client id leaves the page well-formed and its table with all columns."""
    result = both[0]
    rows = [row | {"client_id": name} for row in result.rows_of("publishers")]
    Page(render([replaced(result, "publishers", [{k: v for k, v in row.items() if k != "run"} for row in rows])]))


@pytest.mark.parametrize("name", [*LAYOUTS, "all"])
def test_a_table_without_rows_leaves_a_page(both: list[Result], name: str) -> None:
    """Empty tables are replaced with a sentence."""
    names = list(LAYOUTS) if name == "all" else [name]
    before, after = both
    Page(render([without(before, *names), without(after, *names)]))


@pytest.mark.parametrize("value", [0, 1, None])
def test_a_run_in_which_next_to_nothing_happened_is_shown(both: list[Result], value: int | None) -> None:
    """A page of all zeros, of a single row of ones, and of unknown shares, for one run and for two."""

    def quiet(result: Result) -> Result:
        for name in LAYOUTS:
            rows = [{k: v for k, v in row.items() if k != "run"} for row in result.rows_of(name)]
            kind = float if value is None else (int, float)
            counted = [{k: value if _is_figure(k, v, kind) else v for k, v in row.items()} for row in rows]
            result = replaced(result, name, counted[:1] if value == 1 else counted)
        return result

    Page(render([quiet(both[1])]))
    Page(render([quiet(both[0]), quiet(both[1])]))


def _is_figure(name: str, value: object, kind: type | tuple[type, ...]) -> bool:
    """Whether a column may have any value; not a time, position or length that determines the layout."""
    fixed = ("start_us", "window_us", "hour_us", "_started_us", "first_us", "last_us", "bucket", "rank", "low", "high")
    return isinstance(value, kind) and not isinstance(value, bool) and not name.endswith(fixed)


def test_a_run_without_anything_says_so() -> None:
    """No sessions, no deliveries: texts instead of empty plots."""
    page = render([without(sample_result(), *LAYOUTS)])
    Page(page)
    assert "<svg" not in page
    assert "Nothing was offered to any client." in page
    assert page.count("Nothing was recorded.") == 6
    assert page.count("<details") == 4  # fairness, nothing to say, definitions, tables


def test_more_than_two_runs_are_refused() -> None:
    """The page compares at most two runs."""
    with pytest.raises(ValueError, match="one run or two, not 3"):
        render([sample_result()] * 3)
    with pytest.raises(ValueError, match="not 0"):
        render([])


def test_fully_served_sessions_are_not_among_the_worst(both: list[Result]) -> None:
    """Fully served sessions are left out; if there are no others, a sentence says so."""
    rows = [{k: v for k, v in row.items() if k != "run"} for row in both[0].rows_of("worst_sessions")]
    whole = [row | {"client_id": "lacks-nothing", "delivery_ratio": 1.0} for row in rows]
    assert "lacks-nothing" not in render([replaced(both[0], "worst_sessions", [*rows[:3], *whole[:2]])])
    page = render([replaced(both[0], "worst_sessions", whole)])
    assert "Every client was sent all that was due to it." in page


def test_what_did_not_change_is_called_the_same(both: list[Result]) -> None:
    """No +0.0 % between equal displayed values, and no per cent for a fall to 0."""
    kept = [{k: v for k, v in row.items() if k != "run"} for row in both[1].rows_of("comparison")]
    same = [row | {"baseline": 103.0, "value": 103.0000001, "ratio": 1.0, "unit": "deliveries"} for row in kept[:1]]
    page = render([both[0], replaced(both[1], "comparison", [*same, *kept[3:4]])])
    assert ">same</span>" in page
    assert ">to 0</span>" in page
    assert "+0.0" not in page
