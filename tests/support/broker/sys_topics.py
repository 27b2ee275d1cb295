"""The topics under $SYS: their names, and their values from a broker without sockets."""

from broker.telemetry.sys_topics import SysTopics
from config.mqtt import Mqtt
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker

MINUTES = ("1min", "5min", "15min")
LOADS = [f"{what}/{way}" for what in ("messages", "publish", "bytes") for way in ("received", "sent")]
LOADS += ["publish/dropped", "sockets", "connections"]
TOPICS = {
    "version",
    "uptime",
    *(f"clients/{name}" for name in ("total", "connected", "active", "disconnected", "inactive")),
    *(f"clients/{name}" for name in ("maximum", "expired", "refused")),
    *(f"messages/{name}" for name in ("received", "sent", "inflight", "stored")),
    *(f"publish/messages/{name}" for name in ("received", "sent", "dropped")),
    *("publish/bytes/received", "publish/bytes/sent", "bytes/received", "bytes/sent"),
    *("store/messages/count", "retained messages/count", "subscriptions/count", "shared_subscriptions/count"),
    *("slow_consumers/total", "stalled_windows/total", "awaiting_rel/parked"),
    *(f"load/{name}/{minutes}" for name in LOADS for minutes in MINUTES),
}
"""All that there are, without $SYS/broker/: Mosquitto's names, as its manual page has them, FC-14's and FC-22's."""
ADDRESSES = [f"addresses/{name}" for name in ("full", "parked", "paged", "refused", "dropped")]
"""Those that there are only if addresses are configured."""


def name(message: Publish) -> str:
    """A topic without $SYS/broker/."""
    return message.topic.decode().removeprefix("$SYS/broker/")


class Values:
    """The topics of a broker without sockets, updated when asked: nobody but the test adds to the numbers."""

    def __init__(self, local: LocalBroker, retain: bool = True, addresses: bool = False) -> None:
        self.local = local
        broker = local.broker
        full = broker.addresses if addresses else None
        mqtt = Mqtt(retain_available=retain)
        self.topics = local.run(lambda: SysTopics(broker.settings, broker.sessions, broker.messages, full, mqtt))

    def update(self) -> None:
        """Have them published."""
        self.local.complete(self.topics.update())

    def now(self, *names: str) -> list[str]:
        """What these say after an update."""
        self.update()
        return [self.published(name) for name in names]

    def published(self, topic: str) -> str:
        """What this says since the last update."""
        (publish,) = self.local.broker.retained.matching(f"$SYS/broker/{topic}".encode(), 0)
        return publish.payload.decode()

    def retained(self) -> int:
        """How many retained messages there are when each topic has been published."""
        self.update()
        return int(self.now("retained messages/count")[0])
