"""Counting with perf: only while a load is measured, and not at all where it is not possible."""

from pathlib import Path

import pytest

from tests.bench import instructions
from tests.bench.generator import drive
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.once

CLOCK = "task-clock"
"""Counted by the kernel itself, in milliseconds: there where a machine does not let its instructions be counted."""


def test_counts_while_it_is_measured(broker: BrokerProcess) -> None:
    """What perf counts is what the generator measures by itself: neither the set-up nor the warm-up."""
    if reason := instructions.why_not(CLOCK):
        pytest.skip(reason)
    load = ["--mode", "pair", "--publishers", "2", "--seconds", "0.5", "--warmup", "0.5"]
    result = drive(broker, load, CLOCK)
    assert result["counted"] == pytest.approx(result["broker_cpu"] * result["seconds"] * 1000, rel=0.2)
    assert result["counted_per_delivery"] == pytest.approx(result["counted"] / sum(result["received"]))
    assert "counted" not in drive(broker, load)


def test_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without perf, or where it does not count, the reason is said."""
    perf = tmp_path / "perf"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install linux-perf" in instructions.why_not()
    perf.write_text("#!/bin/sh\necho '<not supported>;;instructions:u;0;100.00;;' >&2\n")
    perf.chmod(0o755)
    assert instructions.why_not() == "instructions:u are not counted: perf says <not supported>"
    perf.write_text("#!/bin/sh\necho 'Access to performance monitoring is limited.' >&2\nexit 255\n")
    assert "limited" in instructions.why_not()
    perf.write_text("#!/bin/sh\necho '1000;;instructions:u;5;100.00;;' >&2\n")
    assert instructions.why_not() == ""
