"""The page, its verdict, the summary and the picture."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs import verdict
from spark_jobs.files import EMPTY, SkippedFile
from spark_jobs.old_page import render
from spark_jobs.picture import compared
from spark_jobs.publish import publish
from spark_jobs.summary import summary
from spark_jobs.tables import prepare_folder
from spark_jobs.timeplots import fairness, timelines

if TYPE_CHECKING:
    from spark_jobs.run import Run

pytestmark = pytest.mark.spark

SCRIPT = "</title><script>alert('x')</script>\u202e\""
VOID = {"meta", "rect", "line", "path", "br"}


class Checker(HTMLParser):
    """Notes elements, ids and text, and that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(page: str) -> Checker:
    """Parse a page; everything that was opened is closed."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def hostile(run: "Run") -> "Run":
    """A run whose label, client ids and skipped files come from somebody with bad intentions."""
    worst = run.tables["worst_sessions"]
    index = worst.column_names.index("client_id")
    ids = pa.array([SCRIPT] * worst.num_rows)
    skipped = SkippedFile(
        run.survey.root / "date=2026-11-21" / f"{SCRIPT.replace('/', '')}.parquet", EMPTY, SCRIPT
    )
    return replace(
        run,
        label=SCRIPT,
        survey=replace(run.survey, skipped=(skipped,)),
        tables={**run.tables, "worst_sessions": worst.set_column(index, "client_id", ids)},
    )


@pytest.fixture(params=["one", "two"])
def shown(request: pytest.FixtureRequest, runs: "list[Run]") -> "list[Run]":
    """One run, or two."""
    return runs[1:] if request.param == "one" else runs


def test_the_page_is_whole_and_loads_nothing(shown: "list[Run]") -> None:
    """Every section is there, every element closed, and nothing comes from elsewhere or is executed."""
    page = render(shown, ["totals"])
    found = checked(page)
    sections = {"timeline", "fairness", "mailbox", "ack", "wait", "reasons", "pressure", "worst", "quality"}
    assert sections <= set(found.ids)
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert set(re.findall(r"https?://[^\"' )]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"url\(|@import|\son\w+=", page)
    assert "default-src 'none'" in page
    assert found.tags.count("svg") >= 10
    for words in ("How to read", "Jain", "Books balance", "DEC Research Report TR-301"):
        assert words in page


def test_the_page_suits_phones_and_the_dark(runs: "list[Run]") -> None:
    """A viewport, both colour schemes, and plots over time for narrow screens."""
    page = render(runs, ["totals"])
    assert "width=device-width" in page
    assert "prefers-color-scheme: dark" in page
    assert page.count('class="wide"') == page.count('class="narrow"') == 3


def test_what_clients_send_cannot_run(shown: "list[Run]") -> None:
    """Script tags in client ids, labels and file names are shown as text."""
    page = render([hostile(run) for run in shown], ["totals"])
    found = checked(page)
    assert "script" not in found.tags
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page.split("</style>")[1].split("<h1>")[0]
    assert any("\\u202e" in text for text in found.text)


def test_the_verdict_on_one_run(runs: "list[Run]") -> None:
    """In words: how equal, what was dropped and why, pressure, acknowledgement, books."""
    run = runs[1]
    assert verdict.headline(run).startswith("Most sessions were treated alike, some got less; 93.3")
    told = " ".join(verdict.sentences(run))
    assert "24 deliveries were dropped, all of them at QoS 0; the most frequent reason: mqueue full." in told
    assert "under pressure 33.3" in told
    assert "send path congested" in told
    assert "QoS 1 deliveries were acknowledged" in told
    assert "QoS 2 deliveries" not in told
    assert "The books balance in all 24 rows" in told


def test_the_verdict_on_two_runs(runs: "list[Run]") -> None:
    """The mailbox differs, so it makes the headline; what is the same is called so."""
    headline = verdict.compared_headline(runs[0], runs[1])
    assert headline.startswith("With gate on, mailboxes were shorter (p99")
    assert "QoS 0" not in headline
    told = " ".join(verdict.compared_sentences(runs[0], runs[1]))
    assert "The longest mailbox held 3 deliveries with gate on, 40 with gate off" in told
    assert "QoS 1 was acknowledged sooner" in told
    assert (
        "QoS 0 throughput under pressure was about the same: 14/s with gate on, 14/s with gate off." in told
    )
    assert "hardly differ" in verdict.compared_headline(runs[0], replace(runs[0], label="again"))


def with_totals(run: "Run", **values: object) -> "Run":
    """The run with other totals over all QoS."""
    return with_values(run, "totals", **values)


def with_values(run: "Run", name: str, **values: object) -> "Run":
    """The run with other values in each row of a table."""
    table = run.tables[name]
    for column, value in values.items():
        array = pa.array([value] * table.num_rows, table.schema.field(column).type)
        table = table.set_column(table.column_names.index(column), column, array)
    return replace(run, tables={**run.tables, name: table})


def test_other_verdicts(runs: "list[Run]") -> None:
    """Nothing offered, nothing sent, everybody alike, very unequal; QoS 0 that pays for the gain."""
    run = runs[1]
    assert "Nothing was offered" in verdict.headline(with_totals(run, offered=0))
    assert "Nothing that was offered was sent" in verdict.headline(
        with_values(run, "fairness", jain_delivery_ratio=None)
    )
    alike = with_values(run, "fairness", jain_delivery_ratio=1.0, lowest_delivery_ratio=0.99)
    assert verdict.headline(alike).startswith("Sessions were treated alike")
    unequal = with_values(run, "fairness", jain_delivery_ratio=0.4)
    assert verdict.headline(unequal).startswith("Sessions were treated unequally")
    paid = verdict.compared_headline(runs[0], with_totals(run, delivery_ratio=0.5))
    assert ", but less QoS 0 was sent (50.0" in paid
    assert ", and more QoS 0 was sent" in verdict.compared_headline(
        with_totals(runs[0], delivery_ratio=0.5), run
    )
    off = with_values(run, "books", rows_off=3)
    assert "The books do not balance in 3 of 24 rows" in " ".join(verdict.sentences(off))
    assert "gate on: The books do not balance" in " ".join(verdict.compared_sentences(runs[0], off))
    assert "Books do not balance" in render([off], [])


def test_a_run_of_nothing_is_shown(runs: "list[Run]") -> None:
    """Sessions to which nothing was offered leave empty plots, not a broken page."""
    run = runs[0]
    empty = {
        name: table.slice(0, 0) for name, table in run.tables.items() if name in ("reasons", "worst_sessions")
    }
    no_samples = run.tables["percentiles"]
    no_samples = no_samples.filter(pc.less(no_samples["samples"], 0))
    quiet = with_totals(replace(run, tables={**run.tables, **empty, "percentiles": no_samples}), dropped=0)
    found = checked(render([quiet], []))
    assert "Nothing was recorded." in found.text


def test_windows_without_rows_are_idle(runs: "list[Run]") -> None:
    """A gap in the rows is drawn as nothing sent, and as no index."""
    run = runs[0]
    table = run.tables["by_window"]
    gap = replace(run, tables={**run.tables, "by_window": table.slice(0, 4)})
    assert len(timelines([gap])) < len(timelines([run])) + 200
    assert "<svg" in fairness([gap])


def test_the_summary_has_the_numbers(runs: "list[Run]") -> None:
    """Everything that the README quotes, by names that do not change."""
    found = json.loads(json.dumps(summary(runs)))
    assert found["baseline"] == "gate off"
    on = found["runs"][1]
    assert on["label"] == "gate on"
    assert on["totals"]["0"]["sent"] == 216
    assert on["pressure"]["pressure_windows"]["sent_qos0_per_second"] == 14
    assert on["percentiles"]["ack_1"]["p99_high"] == 1023
    assert on["books"] == {"rows": 24, "rows_off": 0, "balance": True}
    assert on["files"]["read"] == 1
    assert summary(runs[1:])["baseline"] is None


def test_the_picture_stands_alone(runs: "list[Run]") -> None:
    """One well-formed SVG file with both runs' names, its own style and both colour schemes."""
    picture = compared(runs[0], hostile(runs[1]))
    root = ET.fromstring(picture)
    texts = [e.text or "" for e in root.iter() if e.tag.endswith("text")]
    assert "gate off" in texts
    assert any("script" in text for text in texts)
    assert "script" not in {e.tag for e in root.iter()}
    assert "prefers-color-scheme: dark" in picture


def test_everything_is_published(runs: "list[Run]", tmp_path: Path) -> None:
    """Page, summary, picture, and each table as CSV and Parquet; again over an earlier report."""
    prepare_folder(tmp_path)
    publish([hostile(run) for run in runs], tmp_path)
    publish(runs, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"report.html", "summary.json", "compare.svg", "tables"}
    names = sorted(p.stem for p in (tmp_path / "tables").glob("*.csv"))
    assert names == sorted(p.stem for p in (tmp_path / "tables").glob("*.parquet"))
    assert {"totals", "by_window", "fairness", "percentiles", "worst_sessions", "files", "books"} <= set(
        names
    )
    assert set(_links((tmp_path / "report.html").read_text())) == {f"tables/{name}.csv" for name in names}


def _links(page: str) -> Iterator[str]:
    yield from re.findall(r'href="([^"]*)"', page)
