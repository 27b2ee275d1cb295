"""The suite by itself: its books hold, its figures are those of their definitions, its page has all of them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.invoked import invoked
from tests.fairness import measure as fairness
from tests.fairness.__main__ import main
from tests.fairness.books import Run, books, fair_shares, jain, p99
from tests.fairness.brokers import Contender
from tests.fairness.cases import CASES, LOUD, SLOW, STALLED, Case, Publisher, Reader
from tests.fairness.clients import Sent
from tests.fairness.page import Figures, drawn, page
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.once

MIXED = Case(
    "mixed",
    "A loud publisher, a reader who is slow, and a pair on another topic",
    (Publisher(1), Publisher(9, disturbs=True), Publisher(1, topic="pair")),
    (Reader(), Reader(disturbs=True), Reader(topic="pair")),
)


def never(folder: Path) -> BrokerProcess:
    """A broker that is not started."""
    raise AssertionError(folder)


def played() -> Run:
    """A run: three deliveries of the loud one are lost, one unacknowledged, and of the quiet one one at each reader."""
    sent = (Sent(2, frozenset({0, 1})), Sent(9, frozenset(range(8))), Sent(1, frozenset({0})))
    well = {(0, 0): 0.25, **{(1, number): 1.0 for number in range(6)}}
    slowly = {(0, 0): 9.0, **{(1, number): 9.0 for number in range(9)}}
    return Run(MIXED, sent, (well, slowly, {(2, 0): 0.125}), memory=3 * 2**20)


def test_the_books_of_a_real_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is sent each delivery has arrived or is lost; who stalls to the end loses what no queue holds."""
    monkeypatch.setattr(fairness, "CALM", 1.0)
    sections = {"session": {"mqueue_fairness": "publisher", "max_mqueue_len": 100, "overflow_patience": "0s"}}
    case = replace(STALLED, steps=())
    run = fairness.measure(lambda folder: start_sluice(folder, TCP_ONLY, sections), case, 1.0)
    counted = books(run)
    assert counted.sent == 2 * sum(done.count for done in run.sent) == 1_000
    assert counted.sent == counted.arrived + counted.lost
    assert 500 - 32 - 100 <= counted.acknowledged_lost <= counted.lost
    assert run.memory >= run.at_start > 0


def test_figures_of_a_run() -> None:
    """Deliveries count one by one, p99 is that of the quiet ones, and Jain's index of fair shares."""
    run = played()
    counted = books(run)
    assert (counted.sent, counted.arrived, counted.lost) == (23, 18, 5)
    assert (counted.acknowledged_lost, counted.others_lost) == (4, 1)
    assert p99(run) == 0.25
    # 18 have arrived: 2 of the quiet one's 4, 15 of the loud one's 18, whose share is what the others leave, 13.
    shares = (2 / 4, 15 / 13, 1 / 1)
    assert jain(run) == pytest.approx(sum(shares) ** 2 / (3 * sum(each**2 for each in shares)))


def test_what_nobody_has_sent_is_an_error() -> None:
    """Books into which something falls from elsewhere are no books."""
    run = Run(MIXED, [Sent(1, frozenset())] * 3, ({(0, 1): 0.1}, {}, {}))
    with pytest.raises(ValueError, match=r"1 messages have arrived that nobody has sent: \[\(0, 1\)\]"):
        books(run)


@pytest.mark.parametrize(
    ("demands", "capacity", "shares"),
    [((1, 100), 50, (1, 49)), ((10, 10), 10, (5, 5)), ((2, 3), 100, (2, 3)), ((9, 1, 5), 9, (4, 1, 4)), ((), 1, ())],
)
def test_fair_shares(demands: tuple[int, ...], capacity: float, shares: tuple[float, ...]) -> None:
    """Who wants little gets it, the others get the same."""
    assert tuple(fair_shares(demands, capacity)) == shares


def test_a_case_without_those_who_disturb() -> None:
    """Quiet publishers stay, and only readers who read well."""
    assert len(LOUD.undisturbed().publishers) == 99
    assert len(SLOW.undisturbed().readers) == 9
    assert all(not case.undisturbed().steps for case in CASES.values() if case.alone)


def test_page_and_picture() -> None:
    """Each broker is on it with its settings, failures say why, and it needs nothing from elsewhere."""
    figures = Figures.of(played(), played())
    results: dict[str, dict[str, Figures | str]] = {"loud": {"sluice, tuned": figures, "x, defaults": "<b>gone</b>"}}
    contender = Contender("sluice", "Sluice 1", "session.mqueue_fairness: publisher", never)
    made = page(results, CASES, [contender], {"emqx": "no emqx on PATH"}, ["on this machine"])
    for text in ("Sluice 1; session.mqueue_fairness: publisher", "emqx: not measured", "&lt;b&gt;gone", "5 (21.7 %)"):
        assert text in made
    assert not re.search(r"<script|<link|https?:|src=", made)
    assert "acknowledged and lost" in drawn(results["loud"], LOUD.title)


def test_names_that_are_not_there() -> None:
    """A broker or case that is not known, or is named and not there, ends the run before it begins."""
    assert "there is no case lout; there are: stalled, slow" in invoked(main, "--cases", "lout").output
    assert "there is no broker hive; there are: sluice, mosquitto" in invoked(main, "--brokers", "hive").output
    result = invoked(main, "--emqx", "/nowhere/emqx", "--brokers", "emqx")
    assert result.exit_code == 1
    assert "/nowhere/emqx is not a program" in result.output
