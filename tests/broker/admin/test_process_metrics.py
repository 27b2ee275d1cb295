"""/metrics about the process: its journal, its reloads."""

import math
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.broker.admin.test_prometheus import Metrics
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.waiting import wait_until
from tests.support.wire import connected

pytestmark = pytest.mark.once


def test_room_of_the_journal(start: Start, tmp_path: Path) -> None:
    """What the journal has to keep, how large it may be, and what the disk has room for: less than is free."""
    sections: Any = {"admin": {"socket": "a.sock"}, "persistence": {"directory": str(tmp_path / "journal")}}
    broker = start(sections=sections)
    wait_for_event(broker, "admin_socket")
    before = Metrics(tmp_path / "a.sock").value("sluice_journal_live_bytes")
    with connected(broker.address(), 5) as client:
        for topic in ("a", "a", "b"):  # one is replaced
            client.publish(topic, bytes(50_000), 1, retain=True)
    metrics = Metrics(tmp_path / "a.sock")
    assert 100_000 <= metrics.value("sluice_journal_live_bytes") - before < 110_000
    assert metrics.value("sluice_journal_bytes") > 150_000
    assert metrics.value("sluice_journal_max_bytes") == math.inf
    disk = shutil.disk_usage(tmp_path)
    assert 0 < metrics.value("sluice_journal_disk_room_bytes") < disk.total


def test_reloads(start: Start, tmp_path: Path) -> None:
    """A reload that is refused is told until one is not."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_event(broker, "admin_socket")
    right = (tmp_path / "sluice.yaml").read_text()
    assert Metrics(tmp_path / "a.sock").value("sluice_reload_failed") == 0
    for text, failed in ((right + "nonsense: 1\n", 1), (right, 0)):
        (tmp_path / "sluice.yaml").write_text(text)
        os.kill(broker.pid, signal.SIGHUP)

        def is_told(expected: int = failed) -> bool:
            return Metrics(tmp_path / "a.sock").value("sluice_reload_failed") == expected

        wait_until(is_told, "it is told")
