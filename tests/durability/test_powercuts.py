"""FC-27: after a power cut all that was acknowledged is there. `make powercuts` tries thousands of cuts."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.durability.powercuts import check_images, early
from tests.durability.record import Recorder, record
from tests.durability.shim import MissingError

IMAGES = 12

Record = Callable[..., Recorder]


@pytest.fixture
def recorded(tmp_path: Path) -> Record:
    """Record a broker under load, which is killed or stopped so often meanwhile."""

    def record_one(ends: int, sync: str = "commit") -> Recorder:
        try:
            recorder = Recorder(tmp_path, sync=sync)
        except MissingError as error:
            pytest.skip(str(error))
        asyncio.run(record(recorder, 0.6, ends, random.Random(1)))
        return recorder

    return record_one


def test_nothing_acknowledged_is_lost(recorded: Record) -> None:
    """No PUBACK or PUBREC is sent before its message is synced, and no power cut loses an acknowledged message."""
    recorder = recorded(1)
    compared, too_early = early(recorder)
    assert compared > 20
    assert too_early == []
    assert check_images(recorder, IMAGES, random.Random(1)).lost == []


def test_a_broker_that_does_not_wait(recorded: Record) -> None:
    """Both checks find a broker that acknowledges before it syncs, as with `sync: 1s` (FC-28)."""
    recorder = recorded(0, sync="1s")
    compared, too_early = early(recorder)
    assert len(too_early) > compared // 2
    assert check_images(recorder, 5, random.Random(1), patience=0.0).lost != []
