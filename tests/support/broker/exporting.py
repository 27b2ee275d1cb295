"""An exporter on a broker without sockets, and the directory that it writes to."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.telemetry.exporter import Exporter
from config.models import Config
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.metrics import Row, read_rows

MANY_TURNS = 10_000
"""Turns of the loop after which a condition that has not come true will not."""


class Bench:
    """What an export needs, without a heartbeat unless asked for one. Close `local` when done."""

    def __init__(self, directory: Path, **sections: Any) -> None:
        self.directory = directory
        self.local = LocalBroker(node_name="test", **sections)
        self.exporter = self.another_life()

    def another_life(self) -> Exporter:
        """A new exporter, as after a restart."""
        metrics = {"directory": self.directory, "heartbeat": float("inf")}
        config = Config.model_validate({"node_name": "test", "metrics": metrics})
        return self.local.run(lambda: Exporter(self.local.broker.sessions, self.local.broker.router.shared, config))

    def client(self, client_id: str, properties: Properties | None = None) -> LocalClient:
        """A client that is connected and subscribed to the topic of its name."""
        client = self.local.client()
        client.connect(client_id, properties=properties)
        client.subscribe(client_id, 1)
        return client

    def export(self, everything: bool = False) -> None:
        """One export, with a metrics file of its own."""
        self.keep(everything)
        self.local.complete(self.exporter.writer.finish())

    def keep(self, everything: bool = False) -> None:
        """One export, for the file of the quarter."""
        self.local.complete(self.exporter.export(everything))

    def rows(self) -> list[Row]:
        """All rows so far."""
        return read_rows(self.directory)


def send(client: LocalClient, topic: str, qos: int = 0) -> None:
    """Publish once, seven bytes."""
    client.send(Publish(topic.encode(), b"payload", qos, packet_id=1 if qos else 0))


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop turn until `condition` holds."""
    for _ in range(MANY_TURNS):
        if condition():
            return
        await asyncio.sleep(0)
    raise TimeoutError("it never came true")
