"""The bench of the journal: its calculations."""

from pathlib import Path

import pytest
import typer

from tests.bench import disk
from tests.bench.disk import Syncs
from tests.bench.journal import JOURNAL, MEMORY, Outcome, Row, chosen_others

pytestmark = pytest.mark.once


def row(cpu_us: float, p99_us: float) -> Row:
    """The part of blast's results that is used."""
    return Row([{"cpu_us_per_delivery": cpu_us}], [{"ack_qos1": {"p99_us": p99_us}}])


def test_limits() -> None:
    """More than three times the CPU, or one and a half times the disk's p99, is reported."""
    syncs = [Syncs([0.001] * 98 + [0.004] * 2)]
    assert syncs[0].percentile(0.5) == 0.001
    assert syncs[0].of_the_time(0.5) == 0.001
    assert syncs[0].of_the_time(0.95) == 0.004  # of 106 ms, 98 pass in short ones
    good = Outcome({MEMORY: row(0.5, 0), JOURNAL: row(1.5, 5_999)}, syncs)
    assert good.missed() == []
    bad = Outcome({MEMORY: row(0.5, 0), JOURNAL: row(1.6, 6_001)}, syncs)
    assert [each.partition(" ")[0] for each in bad.missed()] == ["a", "p99"]


def test_the_disk(tmp_path: Path) -> None:
    """The disk of the given folder is measured, and no file is left there."""
    syncs = disk.measure(tmp_path, 0.05)
    assert syncs.times
    assert syncs.rate == pytest.approx(len(syncs.times) / sum(syncs.times))
    assert list(tmp_path.iterdir()) == []


def test_names_of_others() -> None:
    """A broker that is not known is refused, with the names of those that are."""
    assert chosen_others("") == []
    assert chosen_others("mosquitto, nats") == ["mosquitto", "nats"]
    with pytest.raises(typer.BadParameter, match=r"no other broker mosqitto; there are: mosquitto, nats, rabbitmq"):
        chosen_others("mosqitto")
