"""The exports of a metrics file are removed when it is there: wherever that stops, the file is as it was."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.broker.exporting import Bench, send
from tests.support.broker.metrics import metrics_files, total

EXPORTS = 3


@pytest.mark.parametrize("removed", range(EXPORTS + 1))
def test_a_removal_that_stops_changes_no_file(bench: Bench, monkeypatch: pytest.MonkeyPatch, removed: int) -> None:
    """After any number of exports: the next life removes the rest, and makes no file of it."""
    client = bench.client("c")
    for _ in range(EXPORTS):
        send(client, "x")
        bench.keep()

    def stopped(folder: Path, **_: Any) -> None:
        for export in sorted(folder.iterdir())[:removed]:
            export.unlink()
        raise OSError("an export cannot be removed")

    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(shutil, "rmtree", stopped)
        bench.local.complete(bench.exporter.writer.finish())
    assert [log["event"] for log in logs] == ["metrics_not_filed"]
    (path,) = metrics_files(bench.directory)
    before = path.read_bytes()
    assert len(list(bench.directory.rglob("*.arrow"))) == EXPORTS - removed
    bench.exporter = bench.another_life()
    send(client, "x")
    bench.export()
    assert path.read_bytes() == before
    assert total(bench.rows(), "received_qos0") == EXPORTS + 1
    assert not list(bench.directory.glob("_pending/*/*"))
