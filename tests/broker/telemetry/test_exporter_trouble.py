"""What an export does when a disk fails, at unexpected errors, and when the broker stops meanwhile."""

import asyncio
import os
import resource
import threading
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.telemetry import writer
from broker.telemetry.exporter import SLICE
from tests.support.broker.exporting import Bench, send, until
from tests.support.broker.metrics import check_books, total


def test_unwritable(bench: Bench) -> None:
    """A directory without write permission is logged once and counted, and used as soon as it can be."""
    client = bench.client("c")
    bench.directory.write_text("not a directory")
    with capture_logs() as logs:
        for _ in range(3):
            send(client, "x")
            bench.export()
        assert [log["event"] for log in logs] == ["metrics_lost"]
        assert str(bench.directory) in logs[0]["detail"]
        assert bench.exporter.writer.failed == 3
        bench.directory.unlink()
        send(client, "x")
        bench.export()
        send(client, "x")
        bench.export()
        assert [(log["event"], log["failed"]) for log in logs[1:]] == [("metrics_written_again", 3)]
    assert bench.exporter.writer.written == 2
    assert total(bench.rows(), "received_qos0") == 2


def test_full_disk(bench: Bench) -> None:
    """A file that cannot be written completely is removed."""
    client = bench.client("c")
    send(client, "x")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with capture_logs() as logs:
            bench.export()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [log["event"] for log in logs] == ["metrics_lost"]
    assert not list(bench.directory.rglob("*.parquet*"))


def test_slow_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that takes long to write is logged while it is being written, and counts when it is complete."""
    client = bench.client("c")
    send(client, "x")
    go_on = threading.Event()
    monkeypatch.setattr(writer, "SLOW", 0.01)
    monkeypatch.setattr(os, "fsync", lambda _: go_on.wait(10))

    async def run() -> None:
        export = asyncio.ensure_future(bench.exporter.export())
        while not logs:
            await asyncio.wait((export,), timeout=0.01)
        assert not export.done()
        go_on.set()
        await export

    with capture_logs() as logs:
        bench.local.complete(run())
    assert [log["event"] for log in logs] == ["metrics_slow"]
    assert bench.exporter.writer.written == 1


def fail_once(bench: Bench) -> Callable[..., Any]:
    """A stand-in for collecting that raises the first time."""
    collect = bench.exporter._collect
    calls = 0

    async def collect_or_fail(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("out of order")
        await collect(*arguments)

    return collect_or_fail


def test_unexpected_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that fails with an unexpected error is logged, and the next one works."""
    client = bench.client("c")
    send(client, "x")
    monkeypatch.setattr(bench.exporter, "_collect", fail_once(bench))
    bench.exporter.interval = 0

    async def run() -> None:
        bench.exporter.start()
        await until(lambda: bench.local.crashes)
        await bench.exporter.stop()

    bench.local.complete(run())
    assert [str(crash["exception"]) for crash in bench.local.crashes] == ["out of order"]
    assert bench.exporter.failures == 1
    bench.local.crashes.clear()
    assert total(bench.rows(), "received_qos0") == 1


def test_stop_in_the_middle(bench: Bench) -> None:
    """A stop during an export loses none of the collected rows."""
    clients = [bench.client(f"client-{number:03}") for number in range(3 * SLICE)]
    for client in clients:
        send(client, "x")
    bench.exporter.interval = 0

    async def run() -> None:
        bench.exporter.start()
        await until(lambda: not bench.local.broker.clients.by_id["client-000"].session.active())
        assert bench.local.broker.clients.by_id["client-149"].session.active()
        await bench.exporter.stop()

    bench.local.complete(run())
    rows = bench.rows()
    check_books(rows)
    assert total(rows, "received_qos0") == 3 * SLICE
