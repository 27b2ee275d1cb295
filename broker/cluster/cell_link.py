"""A link: the session that carries messages to one other cell, and filters in both directions.

A cell is to another cell a client with a kept session: its mqueue, window and journal are those of any session. What
comes over a link goes to clients only (CL-2).
"""

from collections.abc import Callable
from typing import Final, final

from broker.auth.identity import SUPERUSER
from broker.auth.permissions import Who
from broker.broker import Broker
from broker.clients import NEVER_EXPIRES, Client
from broker.cluster.cell import client_id_of
from broker.cluster.controls import DRAINED, control
from broker.cluster.link_controls import LinkControls
from broker.cluster.link_side import MOST_FILTERS, LinkSide
from broker.cluster.link_writer import LinkWriter
from broker.cluster.own_filters import TAG, OwnFilter, OwnFilters
from broker.cluster.remote_groups import RemoteGroups
from broker.cluster.remote_members import RemoteMembers
from broker.cluster.retained_order import RetainedOrder
from broker.connection.peer import Peer
from broker.routing.router import is_wildcard
from broker.storage.owner import Owner
from config.cluster import CELL
from protocol.subscribe import Subscription
from session.limits import PACKET_IDS

_ROLES: Final = frozenset((SUPERUSER,))
"""Rules are about clients: the cell of each asks them."""


@final
class CellLink:
    """The link to one other cell, connected or not."""

    def __init__(
        self,
        broker: Broker,
        number: int,
        side: LinkSide,
        own: OwnFilters,
        order: RetainedOrder,
        soon: Callable[[Callable[[], None]], object],
        now: int,
    ) -> None:
        """`soon` calls in the next turn of the loop."""
        self.number = number
        self.connection: Peer | None = None
        """None until CONNACK."""
        self.unanswered: dict[int, list[OwnFilter]] = {}
        """Filters by the packet id of their SUBSCRIBE; UNSUBSCRIBE has none."""
        self._broker = broker
        self._side = side
        self.own = own
        """The filters that the other cell has to know, and all that cells have told this one."""
        self._order = order
        self.told = False
        """Whether the other cell has told all its filters since it connected."""
        self.known = False
        """Whether it knows all of this one."""
        self.lives = False
        """Whether the other cell runs, for all that is known: a connection may be lost, and opened again."""
        self.on_ready: Callable[[], None] | None = None
        """Called once `told` and `known` are so."""
        self.on_lost: Callable[[], None] | None = None
        """Called when a connection is lost."""
        self._awaited: list[OwnFilter] = []
        """Filters that the other cell is told when it is connected again, and that SUBACKs wait for."""
        self.pending: list[OwnFilter] = []
        """Filters that the other cell is told in the next turn."""
        self._soon = soon
        self._told_drained = False
        self._tag = len(own.links)
        """Of the filters that it has told on this connection."""
        self._former: set[str] = set()
        """Filters of the other cell that it has not told again since it connected."""
        self.groups = RemoteGroups(self, self._tell, soon)
        self.members = RemoteMembers(broker, own, self._tell, soon)
        self.controls = LinkControls(broker, self.groups, self.members, self._joined, self._tell)
        self.session_present = broker.clients.get(client_id_of(number)) is not None
        """Whether this end has the session of an earlier connection."""
        self.client = self._begin(now)

    def _begin(self, now: int) -> Client:
        """Its session: the one of the journal, or a new one."""
        broker, name = self._broker, client_id_of(self.number)
        client = broker.clients.get(name)
        if client is None:
            client = broker.sessions.new(name, now)
        client.owned = True
        client.expires_at = 0
        client.expiry_interval = NEVER_EXPIRES
        client.session.listener = CELL
        client.session.version = 5
        broker.quotas.renew(client)
        client.session.outbound.begin_backlog()  # CL-2
        if broker.authorizer is not None:
            client.permissions = broker.authorizer.permissions(Who(None, _ROLES, name, "", CELL))
            broker.authorizer.attach(client.session.outbound, client.permissions, bool(client.session.subscriptions))
        if broker.sessions.durable and client.kept is None:
            self._begin_keeping(client)
        return client

    def _begin_keeping(self, client: Client) -> None:
        """FC-27: write it to the journal; it has no connection."""
        self._keep(client)
        if client.kept is not None:
            client.kept.detached(NEVER_EXPIRES, False)

    def _keep(self, client: Client) -> None:
        self._broker.sessions.keep(client, 5, Owner(None, _ROLES, "", CELL), None)

    # -- the connection

    def attach(self, connection: Peer, other_has_one: bool, now: int) -> None:
        """Run the session on a connection that both ends have accepted."""
        before = self.connection
        if before is not None:
            self._lose(now)
            before.close(reason="the other cell has connected again")
        self.connection = connection
        self.lives = True
        broker, client = self._broker, self.client
        session = client.session
        connection.client = client
        client.attach(connection, None, NEVER_EXPIRES, False)
        broker.handshake.attach(connection, client, client.permissions)
        broker.clients.note_bridge()
        if broker.sessions.durable:
            self._keep(client)
        if not (other_has_one and self.session_present):
            commit = session.inbound.begin_anew()
            if commit:
                connection.socket.hold_until(commit)
        self.session_present = True
        self._former = set(session.subscriptions or ())
        self._tag = (self._tag + TAG + 1) & 0xFF
        self.own.remote.drop(self._tag)  # of a connection long ago: three since then have told nothing to the end
        connection.session = session  # needed by `arm`, which `connect` may call
        session.connect(connection, 5, PACKET_IDS, 0, now, rewriter=LinkWriter(self._order))
        connection.start(session, 0)

    def _tell(self, packet: bytes) -> None:
        connection = self._open()
        if connection is not None:
            connection.socket.write(packet)

    def tell_drained(self) -> None:
        """The process stops: tell the other cell, once it has acknowledged all that is for it."""
        gauges = self.client.session.gauges()
        if not self._told_drained and not gauges.window_len + gauges.mqueue_len + gauges.mailbox_len:
            self._told_drained = True
            self._tell(control(DRAINED, b""))

    @property
    def drained(self) -> bool:
        """Whether neither cell has anything for the other any more, or the link is closed."""
        return not self.is_open() or (self._told_drained and self.controls.other_drained)

    def _joined(self, member: int) -> None:
        """The other cell knows a member of a group whose home it is."""
        name = self.groups.name_of(member)
        if name:
            self.own.known_at(self.number, [OwnFilter(name, False)])

    def is_open(self) -> bool:
        """Whether the other cell is connected."""
        return self._open() is not None

    def closed(self, connection: Peer, now: int) -> None:
        """A connection is closed; what waits for it stays in the session."""
        if self.connection is connection:
            self._lose(now)
            if self.on_lost is not None:
                self.on_lost()

    def _lose(self, now: int) -> None:
        self.connection = None
        self.controls.end(self.client.session.outbound, now)
        self.told = self.known = False
        for told in [*self.unanswered.values(), self.pending]:
            self._awaited += told
        self.unanswered.clear()
        self.pending.clear()

    def gone(self) -> None:
        """CL-1: a cell that does not live is not waited for."""
        if self.connection is None:
            self.lives = False
            self._awaited += [OwnFilter(name, False) for name in self.groups.names()]
            self._answer()

    def _answer(self) -> None:
        awaited, self._awaited = self._awaited, []
        self.own.known_at(self.number, awaited)

    # -- filters of the other cell

    def subscribed(self, subscriptions: list[Subscription], now: int) -> None:
        """The other cell has clients with these filters."""
        for each in subscriptions:
            topic = each.topic_filter.encode()
            if each.no_local and not is_wildcard(topic):  # no kept session has it
                self.own.remote.add(topic, self._tag)
                self._broker.router.cached.forget(topic)
            else:
                each.no_local = False
                self.own.remote.remove(topic, self._tag)  # a kept session has it by now
                self._former.discard(each.topic_filter)
                self._broker.subscribing.add(self.client, [each], now)

    def unsubscribed(self, topic_filters: list[str]) -> None:
        """It has none with these any more."""
        for topic_filter in topic_filters:
            topic = topic_filter.encode()
            if self.own.remote.remove(topic, self._tag):
                self._broker.router.cached.forget(topic)
            self._broker.subscribing.end(self.client, topic_filter)

    def end_former(self) -> None:
        """It has told all its filters since it connected."""
        former, self._former = self._former, set()
        for topic_filter in former:  # not `unsubscribed`: now perhaps only clients that are not kept have it
            self._broker.subscribing.end(self.client, topic_filter)
        for tag in range(self._tag & TAG, 0x100, TAG + 1):
            if tag != self._tag:
                self.own.remote.drop(tag)
        self._broker.router.forget_topics()
        self.members.end_former()
        self.told = True
        self._note_ready()

    def all_known(self) -> None:
        """It knows all filters of this cell."""
        self.known = True
        self._answer()
        self._note_ready()

    @property
    def ready(self) -> bool:
        """Whether what is published at either cell reaches the clients of the other."""
        return self.told and self.known

    def _note_ready(self) -> None:
        if self.ready and self.on_ready is not None:
            self.on_ready()

    # -- filters of this cell

    def tell(self, told: OwnFilter) -> bool:
        """CL-1: tell the other cell of a filter, in the next turn with others; False if it does not live."""
        if not self.is_open():
            if self.lives:
                self._awaited.append(told)
            return self.lives
        if not self.pending:
            self._soon(self._tell_pending)
        self.pending.append(told)
        return True

    def _tell_pending(self) -> None:
        pending, connection = self.pending[:], self._open()
        self.pending.clear()
        if connection is None:
            self._awaited += pending
        else:
            for first in range(0, len(pending), MOST_FILTERS):
                self._side.subscribe(connection, self, pending[first : first + MOST_FILTERS])

    def tell_end(self, topic_filter: str) -> None:
        """No client here has this filter any more."""
        self._tell_pending()  # in order
        connection = self._open()
        if connection is not None:
            self._side.unsubscribe(connection, self, topic_filter)

    def _open(self) -> Peer | None:
        """The connection, unless it is closing."""
        connection = self.connection
        return None if connection is None or connection.session is None else connection

    def answered(self, packet_id: int) -> None:
        """The other cell has answered SUBSCRIBE or UNSUBSCRIBE."""
        self.own.known_at(self.number, self.unanswered.pop(packet_id, []))
