"""A bridge that is stopped at a bad moment."""

import asyncio
import socket
from contextlib import suppress

import uvloop

from broker.bridge.bridge import Bridge
from broker.broker import Broker
from broker.runtime.clock import monotonic_us
from config.bridge import Bridge as Settings
from config.models import Config
from tests.support.brokers import HOST


async def stopped_when_open(port: int) -> int:
    """How many connections are left of a bridge that is removed as soon as its connection is open."""
    broker = Broker(Config(), monotonic_us())
    settings = Settings.model_validate({"name": "up", "address": f"{HOST}:{port}", "topics": [{"filter": "a"}]})
    bridge = Bridge(broker, settings, "here", monotonic_us())
    bridge.start(monotonic_us())
    async with asyncio.timeout(20):
        while not len(broker.connections):  # noqa: ASYNC110 - it has to be the next turn of the loop
            await asyncio.sleep(0)
    gone = asyncio.Event()
    broker.connections.on_last_gone = gone.set
    bridge.remove(monotonic_us())
    with suppress(TimeoutError):
        async with asyncio.timeout(2):
            await gone.wait()
    return len(broker.connections)


def test_a_connection_that_is_just_open_is_closed() -> None:
    """The end of the attempt to connect does not hide that the connection ends: nothing is left of it."""
    with socket.create_server((HOST, 0)) as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(stopped_when_open(server.getsockname()[1])) == 0
