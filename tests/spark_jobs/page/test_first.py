"""The table of the first screen: whom it has, in which order, and with which commands."""

import re
from html import unescape
from typing import Any

import pytest

from spark_jobs.measures.hashing import hashed
from spark_jobs.measures.result import Result
from spark_jobs.page.first import people
from tests.support.spark.sample_result import replaced, sample_result, without

pytestmark = pytest.mark.once


def renamed(result: Result, name: str, **values: Any) -> Result:
    """The result with other clients in a table, named after it."""
    rows = [{key: value for key, value in row.items() if key != "run"} for row in result.rows_of(name)]
    return replaced(result, name, [row | {"client_id": f"{name}-{n}"} | values for n, row in enumerate(rows)])


def lines(result: Result) -> list[list[str]]:
    """The texts of the table's cells."""
    rows = people(result).split("<tr>")[2:]
    found = [[re.sub("<.*?>", "", cell) for cell in re.findall("<t[hd].*?>(.*?)</t[hd]>", row)] for row in rows]
    return [[unescape(cell).replace("\u202f", " ") for cell in cells] for cells in found]


def test_the_worst_of_each_kind_come_first() -> None:
    """Before a second one that was starved; those of a kind stand together."""
    result = sample_result()
    for name in ("starved_worst", "worst_sessions", "reconnecting_clients", "away_clients"):
        result = renamed(result, name)
    found = lines(result)
    assert [cells[0] for cells in found] == [
        "starved_worst-0", "starved_worst-1", "worst_sessions-0", "reconnecting_clients-0", "away_clients-0",
    ]  # fmt: skip
    assert [cells[2] for cells in found[2:]] == [
        "sent 12.0 % of due", "began 151 sessions in 2.62 min", "away for 70.0 % of its time",
    ]  # fmt: skip
    assert "sluice ctl session reconnecting_clients-0" in found[3][-1]


def test_nobody_is_there_twice() -> None:
    """Who was starved and poorly served is a row of those that were starved."""
    names = [cells[0] for cells in lines(sample_result())]
    assert len(set(names)) == len(names) == 5


def test_a_publisher_is_blamed_for_those_that_wait_for_it() -> None:
    """The row is of who is paced, the command is about who is loud."""
    alone = without(sample_result(), "starved_worst", "worst_sessions", "reconnecting_clients", "away_clients")
    loud = renamed(alone, "publishers", share_of_received=0.6, publish_paced_us=2_000_000)
    first = lines(loud)[0]
    assert first[0] == "publishers-1"
    assert first[5].startswith("“publishers-0” on “broker-")
    assert first[6].endswith("sluice ctl session publishers-0")


def test_hidden_names_are_in_no_command() -> None:
    """A digest is no client id that a broker knows."""
    assert {cells[-1].partition("sluice ctl ")[2] for cells in lines(hashed(sample_result(), "key"))} == {
        "session CLIENT"
    }


def test_without_trouble_there_is_no_table() -> None:
    """Not an empty one."""
    names = ("starved_worst", "worst_sessions", "dropped_clients", "reconnecting_clients", "away_clients", "publishers")
    assert people(without(sample_result(), *names)) == ""
