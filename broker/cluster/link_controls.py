"""What the other cell of a link tells besides MQTT, and what it is told (broker/cluster/controls.py)."""

from collections.abc import Callable
from typing import final

from broker.broker import Broker
from broker.cluster import group_controls
from broker.cluster.controls import DRAINED, PAUSE, RESUME, SOURCE, read_number, read_source
from broker.cluster.held_publishers import HeldPublishers
from broker.cluster.remote_groups import RemoteGroups
from broker.cluster.remote_members import RemoteMembers
from broker.cluster.remote_publishers import RemotePublishers
from broker.connection.peer import Peer
from protocol.errors import ProtocolError
from protocol.publish import Publish
from session.flows import BROKER, KEPT, publisher_of
from session.outbound import Outbound
from session.session import Session


@final
class LinkControls:
    """Those of one link."""

    def __init__(
        self,
        broker: Broker,
        groups: RemoteGroups,
        members: RemoteMembers,
        joined: Callable[[int], None],
        tell: Callable[[bytes], None],
    ) -> None:
        """`joined` is called when the other cell knows a member; `tell` sends it a packet, if it is connected."""
        self._groups = groups
        self._members = members
        self._joined = joined
        self.other_drained = False
        """Whether the other cell stops, and has had acknowledged all that it had for this one."""
        self._remote = RemotePublishers(broker.wheel, lambda: broker.settings.limits.overflow_patience, tell)
        self._held = HeldPublishers(broker.clients)

    def read(self, connection: Peer, session: Session, publish: Publish, now: int) -> None:
        """Do what the other cell asks for. Raises ProtocolError."""
        topic = publish.topic
        if topic == SOURCE:
            connection.decoder.publish_version, flow = read_source(publish.payload)
            session.flow = flow if flow & BROKER else flow & KEPT  # the number of a client is of its own process
            self._remote.use(session.outbound, publisher_of(flow), now)
        elif topic == PAUSE:
            self._held.pause(read_number(publish.payload), now)
        elif topic == RESUME:
            self._held.resume(read_number(publish.payload), now)
        elif topic == DRAINED:
            self.other_drained = True
        elif not self._read_of_groups(topic, publish.payload, now):
            raise ProtocolError(f"PUBLISH to {topic!r:.100} on a link")

    def _read_of_groups(self, topic: bytes, payload: bytes, now: int) -> bool:
        """The same about members of groups (FC-13); False if it is not."""
        if topic == group_controls.DELIVERY:
            self._groups.deliver(payload, now)
        elif topic == group_controls.REPORTS:
            self._members.report(group_controls.read_reports(payload), now)
        elif topic == group_controls.ROOM:
            self._members.room(*group_controls.read_room(payload))
        elif topic == group_controls.JOIN:
            self._members.join(group_controls.read_join(payload))
        elif topic == group_controls.JOINED:
            self._joined(group_controls.read_member(payload))
        elif topic == group_controls.LEAVE:
            self._members.leave(group_controls.read_member(payload))
        else:
            return False
        return True

    def end(self, outbound: Outbound, now: int) -> None:
        """The link is closed."""
        self.other_drained = False
        outbound.publisher = None
        self._remote.end(now)
        self._held.end(now)
        self._groups.disconnected()
        self._members.disconnected(now)
