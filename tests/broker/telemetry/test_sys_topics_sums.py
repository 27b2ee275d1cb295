"""The topics under $SYS: their totals, summed up in slices while sessions end and counters are taken; load averages."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from broker.telemetry import slices, totals_walk
from broker.telemetry.sys_topics import LoadAverages
from tests.broker.conftest import Start
from tests.support.broker.exporting import Bench, send, until
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.sys_topics import Values
from tests.support.waiting import wait_until
from tests.support.wire import connected

FAST = {"mqtt": {"sys_interval": "100ms"}}


# -- sums in slices


def together(local: LocalBroker, *actions: Coroutine[None, None, None]) -> None:
    """Run all actions at once."""

    async def run() -> None:
        await asyncio.gather(*actions)

    local.complete(run())


async def later(turns: int, action: Coroutine[None, None, None]) -> None:
    """Run the action after so many turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    await action


def publish_all(clients: list[LocalClient]) -> None:
    """One message from each client."""
    for client in clients:
        send(client, "nobody")


def test_metrics_export_changes_nothing(start: Start, tmp_path: Path) -> None:
    """Exports of counters do not change the totals, neither while sessions run nor after they have ended."""
    sections = {**FAST, "metrics": {"directory": str(tmp_path / "metrics"), "interval": "100ms"}}
    with start(sections=sections) as broker, connected(broker.address(), 5) as watcher:
        watcher.subscribe("$SYS/broker/publish/messages/received")
        for number in range(1, 6):
            with connected(broker.address(), 5) as client:
                for qos in range(3):
                    client.publish("t", b"x", qos)
                client.publish("t", b"x", 1)
                while watcher.receive_message().payload != str(4 * number).encode():
                    pass
        wait_until(lambda: any((tmp_path / "metrics").rglob("*.arrow")), "an export")


def test_counters_taken_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export in the middle of a sum neither counts a session twice nor leaves it out."""
    monkeypatch.setattr(slices, "SLICE_US", 0)
    monkeypatch.setattr(totals_walk, "STEP", 1)
    bench = Bench(tmp_path)
    with bench.local as local:
        values = Values(local)
        clients = [bench.client(f"c{number}") for number in range(20)]
        for delay in range(0, 24, 3):
            publish_all(clients)
            together(local, values.topics.update(), later(delay, bench.exporter.export(everything=True)))
            published = 20 * (delay // 3 + 1)
            assert values.published("publish/messages/received") == str(published)
            assert values.now("publish/messages/received") == [str(published)]


def test_sessions_that_end_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that ends in the middle of a sum counts once, before and after its turn."""
    monkeypatch.setattr(slices, "SLICE_US", 0)
    monkeypatch.setattr(totals_walk, "STEP", 1)
    with LocalBroker() as local:
        values = Values(local)
        clients = [local.client() for _ in range(20)]
        for number, client in enumerate(clients):
            client.connect(f"c{number}")
        publish_all(clients)

        async def drop_some() -> None:
            for client in (*clients[:3], *clients[-3:]):
                await asyncio.sleep(0)
                client.connection.close()

        together(local, values.topics.update(), drop_some())
        assert values.published("publish/messages/received") == "20"
        assert values.now("publish/messages/received", "clients/total") == ["20", "14"]


def test_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop gets its turn after each slice of sessions."""
    monkeypatch.setattr(slices, "SLICE_US", 0)
    with LocalBroker() as local:
        values = Values(local)
        for number in range(1000):
            local.broker.sessions.new(f"c{number}", 0)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async def both() -> None:
            counting = asyncio.get_running_loop().create_task(count())
            await values.topics._walk.snapshot()
            counting.cancel()

        local.complete(both())
        assert turns >= 1000 // slices.STEP - 1


def test_failure_is_reported_and_gone_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker reports an update that fails and goes on with the next one."""
    with LocalBroker() as local:
        values = Values(local)
        values.topics._interval = 0.0
        monkeypatch.setattr(values.topics, "_walk", None)

        async def fail_then_go_on() -> None:
            running = asyncio.get_running_loop().create_task(values.topics.run())
            await until(lambda: len(local.crashes) > 1)
            monkeypatch.undo()
            await until(lambda: len(local.broker.retained))
            running.cancel()

        local.complete(fail_then_go_on())
        local.crashes.clear()


# -- load averages


def test_load_averages() -> None:
    """The averages approach a steady rate, the shorter ones first, and an old rate fades to 1/e in their time."""
    averages = LoadAverages()
    total = 0
    for _ in range(6):
        averages.update(total := total + 100, 10)
    one, five, fifteen = averages.values
    assert one == pytest.approx(600 * (1 - 0.3678794))
    assert one > five > fifteen > 0
    for _ in range(20_000):
        averages.update(total := total + 100, 10)
    assert averages.values == pytest.approx([600, 600, 600])
    averages.update(total, 60)
    assert averages.values[0] == pytest.approx(600 * 0.3678794)
