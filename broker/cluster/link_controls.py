"""What the other cell of a link tells besides MQTT, and what it is told (broker/cluster/controls.py)."""

from collections.abc import Callable
from typing import final

from broker.broker import Broker
from broker.cluster.controls import PAUSE, RESUME, SOURCE, read_number, read_source
from broker.cluster.held_publishers import HeldPublishers
from broker.cluster.remote_publishers import RemotePublishers
from broker.connection.peer import Peer
from protocol.errors import ProtocolError
from protocol.publish import Publish
from session.flows import KEPT, client_of
from session.outbound import Outbound
from session.session import Session


@final
class LinkControls:
    """Those of one link."""

    def __init__(self, broker: Broker, tell: Callable[[bytes], None]) -> None:
        """`tell` sends the other cell a packet, if it is connected."""
        self._remote = RemotePublishers(broker.wheel, lambda: broker.settings.limits.overflow_patience, tell)
        self._held = HeldPublishers(broker.clients)

    def read(self, connection: Peer, session: Session, publish: Publish, now: int) -> None:
        """Do what the other cell asks for. Raises ProtocolError."""
        topic = publish.topic
        if topic == SOURCE:
            connection.decoder.publish_version, flow = read_source(publish.payload)
            session.flow = flow & KEPT  # the number is of its own process
            self._remote.use(session.outbound, client_of(flow), now)
        elif topic == PAUSE:
            self._held.pause(read_number(publish.payload), now)
        elif topic == RESUME:
            self._held.resume(read_number(publish.payload), now)
        else:
            raise ProtocolError(f"PUBLISH to {topic!r:.100} on a link")

    def end(self, outbound: Outbound, now: int) -> None:
        """The link is closed."""
        outbound.publisher = None
        self._remote.end(now)
        self._held.end(now)
