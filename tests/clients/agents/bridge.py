"""Mosquitto as a bridge: messages on its side arrive on the broker's side, and the other way round.

A paho-mqtt on Mosquitto's side publishes and subscribes. Mosquitto's own queue for the bridge is not bounded, since
it would drop what exceeds 1,000 messages itself. It does not log packets: 100,000 lines for each burst kept the
subscriber on the other side from running.
"""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.clients.agents.base import CALM, Agent, Link, serve
from tests.clients.agents.paho_client import Paho
from tests.support.brokers import start_mosquitto
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until

CONFIG = """
log_type error
log_type warning
log_type notice
max_queued_messages 0
connection {name}
address {host}:{port}
remote_clientid {client_id}
bridge_protocol_version {version}
cleansession true
notifications false
restart_timeout 1
topic clients/# both 2
"""


class Bridge(Agent):
    """An agent for the bridge: a Mosquitto, and a paho-mqtt that is connected to it."""

    def connect(self, link: Link) -> None:
        """Start Mosquitto and wait until its bridge is connected and subscribed."""
        self._inside = Paho()
        self._folder = tempfile.TemporaryDirectory(prefix="bridge-")
        version = "mqttv50" if link.version == 5 else "mqttv311"
        config = CONFIG.format(name="matrix", host=link.host, port=link.port, client_id=link.client_id, version=version)
        if link.cafile:
            config += f"bridge_cafile {link.cafile}\n"
        if link.certfile:
            config += f"bridge_certfile {link.certfile}\nbridge_keyfile {link.keyfile}\n"
        self._mosquitto: BrokerProcess = start_mosquitto(Path(self._folder.name), extra=(config,))
        address: Address = self._mosquitto.address()
        self._far = link
        self._wait_for_bridge(Link(address.host, address.port, 4, "probe-inside"))
        self._inside.connect(Link(address.host, address.port, 4, "inside"))

    def _wait_for_bridge(self, near: Link) -> None:
        """Wait until the bridge is connected and subscribed: a message from the far side arrives on the near side."""
        inside, outside = Paho(), self._outside()
        topic = f"clients/probe/{self._far.client_id}"
        inside.connect(near)
        inside.subscribe(topic, 0)

        def arrives() -> bool:
            outside.publish(topic, "", 0, False)
            return len(inside.messages) > 0

        wait_until(arrives, "the bridge is subscribed", CALM)
        inside.disconnect()
        outside.disconnect()

    def subscribe(self, filter: str, qos: int) -> None:  # noqa: A002  # the field of the order
        """Subscribe on Mosquitto's side."""
        self._inside.subscribe(filter, qos)

    def publish(self, topic: str, payload: str, qos: int, retain: bool) -> None:
        """Publish on Mosquitto's side; a retained message is on the other side, too, when this returns."""
        self._inside.publish(topic, payload, qos, retain)
        if retain and payload:
            outside = self._outside()
            outside.subscribe(topic, 0)
            wait_until(lambda: len(outside.messages) > 0, "the bridge has forwarded the retained message", CALM)
            outside.disconnect()

    def _outside(self) -> Paho:
        """Return a paho-mqtt on the other side, without a will."""
        outside = Paho()
        outside.connect(replace(self._far, client_id=f"probe-{self._far.client_id}", clean=True, will_topic=""))
        return outside

    def burst(self, topic: str, count: int, size: int, qos: int) -> None:
        """Publish a burst on Mosquitto's side; the bridge stays."""
        self._inside.burst(topic, count, size, qos)

    async def receive(self, count: int, seconds: float) -> dict[str, object]:
        """Return the messages that came to Mosquitto's side."""
        answer = await self._inside.receive(count, seconds)
        self.lost = self._inside.lost + self._troubles()
        return answer

    async def disconnect(self) -> None:
        """End Mosquitto."""
        self._inside.disconnect()
        self.lost = self._inside.lost + self._troubles()
        await asyncio.to_thread(self._mosquitto.stop)
        self._folder.cleanup()

    def _troubles(self) -> list[str]:
        """Return the lines of Mosquitto's log about a bridge whose connection ended."""
        said = ("disconnected", "Connection Refused", "has exceeded timeout", "protocol error", "closed its connection")
        others = (" <unknown> ", " inside ", " probe-inside ")  # clients on this side, which disconnect
        lines = [line for line in self._mosquitto.stderr.splitlines() if not any(name in line for name in others)]
        return [line for line in lines if any(word in line for word in said)]


if __name__ == "__main__":
    serve(Bridge)
