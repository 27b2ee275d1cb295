"""Many messages that wait for clients that are away: memory, and the time of a start (FC-30).

A thousand kept sessions are away, each with a topic of its own. All messages are published at QoS 1 and acknowledged,
the broker is killed and started again, and every client comes back: it has to get all of its messages, in order.
"""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from tests.bench import machine, program
from tests.support.brokers import start_sluice
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}
NOT_KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 0}

TOGETHER = 500
"""Messages that the publisher sends before it waits for their acknowledgements."""

MIB = 2**20
TIMEOUT = 60.0


def _broker(folder: Path, python: str, memory: str) -> BrokerProcess:
    persistence = {"directory": str(folder / "journal"), "memory": memory}
    command = (python, "-m", "broker")
    return start_sluice(folder, command=command, sections={"persistence": persistence})


def _leave(broker: BrokerProcess, sessions: int) -> None:
    for number in range(sessions):
        with WireClient(broker.address(), 5, timeout=TIMEOUT) as client:
            client.connect(f"away-{number}", clean_start=False, properties=KEPT)
            client.subscribe(f"queued/{number}", qos=1)
            client.disconnect()


def _publish(broker: BrokerProcess, messages: int, sessions: int, size: int) -> float:
    began = time.monotonic()
    with WireClient(broker.address(), 5, timeout=TIMEOUT) as client:
        client.connect("publisher")
        for first in range(0, messages, TOGETHER):
            numbers = range(first, min(first + TOGETHER, messages))
            client.send(*[_message(number, sessions, size) for number in numbers])
            for _ in numbers:
                acknowledged = client.receive()
                assert isinstance(acknowledged, Puback), acknowledged
                assert acknowledged.reason_code < 0x80, acknowledged
        client.disconnect()
    return time.monotonic() - began


def _message(number: int, sessions: int, size: int) -> Publish:
    topic = f"queued/{number % sessions}".encode()
    return Publish(topic, b"%012d" % number + bytes(size - 12), 1, packet_id=number % TOGETHER + 1)


def _drain(broker: BrokerProcess, messages: int, sessions: int) -> int:
    """Receive all messages; returns the most memory of the broker meanwhile, in bytes."""
    most = 0
    for session in range(sessions):
        wanted = range(session, messages, sessions)
        with WireClient(broker.address(), 5, timeout=TIMEOUT) as client:
            client.connect(f"away-{session}", clean_start=False, properties=KEPT)
            for number in wanted:
                publish = client.receive()
                assert isinstance(publish, Publish), publish
                assert int(publish.payload[:12]) == number, f"away-{session}: {publish.payload[:12]!r}, not {number}"
                client.send(Puback(publish.packet_id))
            client.expect_nothing_more()
            client.send(Disconnect(0, NOT_KEPT))
        most = max(most, broker.rss())
    return most


def main(
    messages: Annotated[int, typer.Option(min=1, help="How many messages wait, all sessions together.")] = 1_000_000,
    sessions: Annotated[int, typer.Option(min=1, help="How many sessions are away.")] = 1_000,
    size: Annotated[int, typer.Option(min=12, help="Bytes of a payload.")] = 1_000,
    memory: Annotated[str, typer.Option(help="`persistence.memory` of the broker.")] = "256MiB",
    sluice: Annotated[str, typer.Option(help="The Python that runs the broker.")] = sys.executable,
) -> None:
    """Queue messages, kill the broker, start it, and fetch all of them."""
    console = Console()
    console.print(machine.description())
    with tempfile.TemporaryDirectory(prefix="sluice-queued-") as name:
        folder = Path(name)
        broker = _broker(folder, sluice, memory)
        try:
            _leave(broker, sessions)
            empty = broker.rss()
            seconds = _publish(broker, messages, sessions, size)
            queued = broker.rss()
            on_disk = sum(path.stat().st_size for path in (folder / "journal").iterdir()) / MIB
            console.print(f"{messages:,} messages of {size} B queued in {seconds:.1f} s, {on_disk:,.0f} MiB on disk")
            console.print(f"memory: {empty / MIB:.0f} MiB before, {queued / MIB:.0f} MiB with all of them queued")
            os.kill(broker.pid, signal.SIGKILL)
            broker.stop()
            began = time.monotonic()
            broker = _broker(folder, sluice, memory)
            with WireClient(broker.address(), 5, timeout=TIMEOUT) as client:
                client.connect("first")
                started = time.monotonic() - began
            console.print(f"start after kill -9 to the first CONNACK: {started:.1f} s, {broker.rss() / MIB:.0f} MiB")
            began = time.monotonic()
            most = _drain(broker, messages, sessions)
            console.print(f"all fetched, in order, in {time.monotonic() - began:.1f} s; at most {most / MIB:.0f} MiB")
        finally:
            broker.stop()


if __name__ == "__main__":
    program.run(main)
