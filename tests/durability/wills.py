"""Kills a broker whose clients have wills: each comes once after the restart, unless its client is back (FC-27).

`python -m tests.durability.wills --clients 10000`; it needs that many open files, twice.
"""

import asyncio
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.decoder import Decoder
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.durability.__main__ import KilledBroker

AT_ONCE: Final = 100
"""Clients that connect at a time."""
BACK: Final = 10
"""One of so many comes back."""
LIMIT: Final = 10.0
"""Seconds after the restart in which all wills have to come."""


@dataclass
class Figures:
    """What came after a restart."""

    wills: Counter[int]
    """How often that of each client has come."""
    last: float = 0.0
    """Seconds from when the broker listened to the last one."""

    def wrong(self, expected: Iterable[int]) -> str:
        """What should not be; empty if nothing."""
        wanted = set(expected)
        missing, more = wanted - self.wills.keys(), self.wills.keys() - wanted
        twice = [client for client, times in self.wills.items() if times > 1]
        if not (missing or more or twice or self.last > LIMIT):
            return ""
        return f"{len(missing)} missing, {len(more)} of who is back, {len(twice)} twice, the last {self.last:.1f} s"


class OpenClient:
    """A client that stays connected until the broker is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder(version=5)

    async def receive(self) -> Packet:
        """The next packet. Raises EOFError."""
        while (packet := self._decoder.next_packet()) is None:
            data = await self._reader.read(65_536)
            if not data:
                raise EOFError
            self._decoder.feed(data)
        return packet

    def send(self, packet: Packet) -> None:
        """Send it."""
        self._writer.write(packet.encode(5))

    def close(self) -> None:
        """Without DISCONNECT."""
        self._writer.close()


async def connect(broker: KilledBroker, packet: Connect) -> OpenClient:
    """A client whose CONNACK has come."""
    client = OpenClient(*await asyncio.open_connection(broker.address.host, broker.address.port))
    client.send(packet)
    assert isinstance(await client.receive(), Connack)
    return client


async def connect_all(broker: KilledBroker, numbers: Iterable[int], wills: bool) -> list[OpenClient]:
    """Connect these clients; every second one has a kept session."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> OpenClient:
        kept = number % 2 == 1
        will = Will(f"will/{number}".encode(), b"gone", 1, number % 4 < 2, None) if wills else None
        properties: Properties | None = {props.SESSION_EXPIRY_INTERVAL: 3600} if kept else None
        async with free:
            return await connect(
                broker, Connect(f"client-{number}", not kept, 0, will=will, properties=properties, version=5)
            )

    return list(await asyncio.gather(*[one(number) for number in numbers]))


async def watch(client: OpenClient, started: float, seconds: float) -> Figures:
    """What comes until so many seconds after the start."""
    figures = Figures(Counter())

    async def receive() -> None:
        while True:
            packet = await client.receive()
            if isinstance(packet, Publish):
                client.send(Puback(packet.packet_id))
                figures.wills[int(packet.topic.removeprefix(b"will/"))] += 1
                figures.last = time.monotonic() - started

    try:
        await asyncio.wait_for(receive(), seconds - (time.monotonic() - started))
    except TimeoutError:
        return figures
    raise AssertionError("the broker has closed the connection")


async def restart(broker: KilledBroker, back: Iterable[int]) -> Figures:
    """Kill and start the broker, have these clients come back, and watch for wills."""
    broker.kill()
    broker.start()
    started = time.monotonic()
    watcher = await connect(broker, Connect("watcher", True, 0, version=5))
    # RETAIN as published, and nothing that was retained before
    watcher.send(Subscribe(1, [Subscription("will/#", 1, retain_handling=2)]))
    await watcher.receive()
    watching = asyncio.create_task(watch(watcher, started, LIMIT))
    clients = await connect_all(broker, back, wills=False)
    figures = await watching
    for client in [*clients, watcher]:
        client.close()
    return figures


async def run(folder: Path, count: int) -> tuple[Figures, Figures]:
    """What has come after the first crash, and after one more."""
    broker = KilledBroker(folder)
    broker.start()
    try:
        clients = await connect_all(broker, range(count), wills=True)
        first = await restart(broker, range(0, count, BACK))
        for client in clients:
            client.close()
        return first, await restart(broker, [])
    finally:
        broker.kill()


def expected(count: int) -> set[int]:
    """The clients whose wills have to come."""
    return {number for number in range(count) if number % BACK}


def main(clients: Annotated[int, typer.Option(help="How many clients have wills.")] = 10_000) -> None:
    """Kill a broker whose clients have wills, twice, and say what has come."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        first, second = asyncio.run(run(Path(folder), clients))
    print(f"{len(first.wills)} wills of {clients} clients, the last one after {first.last:.1f} s")
    wrong = [first.wrong(expected(clients)), second.wrong([])]
    for each in wrong:
        if each:
            print(each)
    raise typer.Exit(any(wrong))


if __name__ == "__main__":
    typer.run(main)
