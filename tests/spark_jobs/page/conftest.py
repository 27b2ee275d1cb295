"""A browser for the tests of the page."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.measures.layout import CLIENT
from spark_jobs.measures.result import Result, of_layout
from spark_jobs.page import render
from spark_jobs.page.index import TRENDS, Entry, render_index
from tests.support.looking import launched
from tests.support.spark.sample_result import sample_comparison, sample_result
from tests.support.spark.sample_story import HOSTILE, HOUR, START

if TYPE_CHECKING:
    from playwright.sync_api import Browser

@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium with a temporary profile. Playwright keeps an event loop running: only this module uses it."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of one run, of two runs, of one run with a client, and the index of many reports, as files."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"one": [sample_result()], "two": sample_comparison(), "client": [_with_client()]}
    for name, results in made.items():
        (folder / f"{name}.html").write_text(render(results), encoding="utf-8")
    (folder / "index.html").write_text(render_index(_month()), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in (*made, "index")}


def _with_client() -> Result:
    """A run with a day of a client that came back eight times, under a name that is long and hostile."""
    result = sample_result()
    ints = {name: 0 for name, kind in CLIENT.columns if kind == "int"}
    rows = [
        {
            **ints,
            "broker": "broker-1.example.net",
            "client_id": f"{HOSTILE}{'é' * 400}",
            "session_started_us": START + hour // 3 * 3 * HOUR,
            "hour_us": START + hour * HOUR,
            "why": "window_full",
            "offered": 3_600_000,
            "sent": 3_600_000 - hour * 100_000,
            "delivery_ratio": 1 - hour / 36,
            "ack_qos1_p99": 10.0**hour if hour < 9 else None,
            "starved_rows": hour % 2,
        }
        for hour in range(24)
    ]
    return replace(result, tables={**result.tables, "client": of_layout(CLIENT, result.label, rows)})


def _month() -> list[Entry]:
    """A report for each day; one of them has none of the figures."""
    found = []
    for day in range(30):
        start = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day)
        figures = {name: 1e6 / (day + 2) if unit == "us" else 0.5 for name, (_, unit) in TRENDS.items()}
        values = dict.fromkeys(figures) if day == 9 else figures
        headline = f"{HOSTILE} {'word ' * 80}" if day == 3 else "All sessions were treated equally."
        grade = ("good", "note", "watch", "unfair", "unknown")[day % 5]
        end = start + timedelta(days=1)
        found.append(Entry(f"d{day}{'é' * 90}", start, end, 20_000, ("b",), grade, headline, values))
    return found
