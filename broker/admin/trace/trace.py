"""One trace: whom it is about, what it tells, and when it ends."""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address
from itertools import islice
from typing import Final, NamedTuple

from broker.admin.trace.tap import Tap
from broker.admin.trace.watched import Decision, WatchedSession
from broker.admin.trace.words import in_words, name
from broker.broker import Broker
from broker.clients import Client
from broker.connection.client_socket import ClientSocket
from broker.connection.connection import Connection
from broker.connection.peer import Peer
from broker.routing.receivers import Receivers
from broker.runtime.clock import SECOND
from broker.sessions import DetachedHost
from broker.telemetry.slices import STEP, Slices
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.replies import shortened
from protocol.topics import matches
from session.outbound import Outbound

LOOK: Final = 0.05
"""Seconds between two looks at the counters of watched sessions."""

QUIET: Final = 10.0
"""Seconds without a line after which an empty one is sent: it shows that the trace still runs."""

MOST_WATCHED: Final = 1_000
"""Sessions whose decisions are told."""

MOST_PENDING: Final = 10_000
"""Lines that may wait for a slow reader; further ones are counted, and lost."""

MOST_TAPPED: Final = 10_000
"""Connections whose packets are looked at: each costs 2 KB while the trace runs."""

MOST_TOPICS: Final = 10_000
"""Topics of which is known whether the trace is about them."""

LONGEST_TOPIC: Final = 1_024
"""Bytes of the longest of them: a longer one is looked at each time."""

SHARE: Final = 0.25
"""Of the event loop's time: a trace that takes more than that over PERIOD ends."""

PERIOD: Final = 1.0
"""Seconds."""

MOST_RECEIVERS: Final = 10
"""Client ids of a message's receivers that are told."""


class Wanted(NamedTuple):
    """Whom or what a trace is about; None = any. All three have to fit."""

    client_id: str | None = None
    topic_filter: str | None = None
    address: str | None = None

    def is_about(self, connection: Peer) -> bool:
        """Whether it may be about a connection; before CONNECT its client id is not known."""
        if self.address is not None and not _same_address(connection.socket.host(), self.address):
            return False
        return self.is_about_client(connection.client_id) if connection.client_id else True

    def is_about_client(self, client_id: str) -> bool:
        """Whether it may be about the client with this client id."""
        return self.client_id is None or client_id == self.client_id

    def is_about_topic(self, topic: bytes) -> bool:
        """Whether it is about messages with this topic. A wildcard at the first level is not about those with $."""
        wanted = self.topic_filter
        if wanted is None:
            return True
        hidden = topic.startswith(b"$") and wanted[0] in "+#"
        return not hidden and matches(wanted, topic.decode(errors="replace"))


class Trace:
    """Tells what happens, as JSON."""

    def __init__(self, broker: Broker, wanted: Wanted, limit: int, payload: bool) -> None:
        self.wanted = wanted
        self.active = False
        self._broker = broker
        self._left = limit
        self._payload = payload
        users = broker.authenticators
        self._names_may_be_tokens = users is not None and users.names_may_be_tokens
        self._taps: set[Tap] = set()
        self._watched: dict[str, WatchedSession] = {}
        self._pending: deque[dict[str, object]] = deque()
        self._lost = 0
        self._news = asyncio.Event()
        self._topics: dict[bytes, bool] = {}
        self.took = 0.0
        """Seconds that taps have taken in this period."""
        self._period_began = 0.0

    # -- its beginning and end

    async def lines(self, seconds: float) -> AsyncGenerator[str, None]:
        """Each line, until the time or the number of lines is used up; empty ones in between."""
        looking = asyncio.get_running_loop().create_task(self._run(seconds))
        looking.add_done_callback(lambda _: self._news.set())
        try:
            while self.active or self._pending or not looking.done():
                if not self._pending:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._news.wait(), QUIET)
                    self._news.clear()
                if self._pending:
                    yield json.dumps(self._pending.popleft())
                elif self.active:
                    yield ""
        finally:
            self.active = False
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    async def _run(self, seconds: float) -> None:
        """Tap the connections, look at the counters, and let go of everything at the end."""
        end = time.monotonic() + seconds
        connections = self._broker.connections
        self.active = True
        self._period_began = time.monotonic()
        connections.on_opened = self._opened
        try:
            await self._begin()
            while self.active and time.monotonic() < end:
                await asyncio.sleep(min(LOOK, max(end - time.monotonic(), 0)))
                await self._look()
                self._check_share(time.monotonic())
            if self.active:
                self._tell(None, "ended", text="the time is over")
        finally:
            self.active = False
            connections.on_opened = None
            self._news.set()
            await asyncio.shield(self._let_go())

    async def _begin(self) -> None:
        if self.wanted.client_id is not None:
            client = self._broker.clients.get(self.wanted.client_id)
            if client is not None:
                self.watch(client)
        slices = Slices()
        number = 0
        for number, connection in enumerate(list(self._broker.connections.open), 1):
            self._opened(connection)
            if number % STEP == 0:
                await slices.breathe()
        others = f", the most, of {number}: the others are not shown" if len(self._taps) == MOST_TAPPED else ""
        self._tell(None, "began", text=f"{len(self._taps)} connection{'' if len(self._taps) == 1 else 's'}{others}")

    def _check_share(self, now: float) -> None:
        """End if it takes too much of the time."""
        elapsed = now - self._period_began
        if elapsed < PERIOD:
            return
        if self.took > SHARE * elapsed and self.active:
            share = f"{self.took / elapsed:.0%}"
            self._tell(None, "ended", text=f"it takes {share} of the broker's time: name a client, or fewer topics")
            self.active = False
        self.took, self._period_began = 0.0, now

    def concerns(self, topic: bytes) -> bool:
        """The same as `Wanted.is_about_topic`, remembered."""
        known = self._topics.get(topic)
        if known is None:
            known = self.wanted.is_about_topic(topic)
            if len(self._topics) >= MOST_TOPICS:
                self._topics.clear()
            if len(topic) <= LONGEST_TOPIC:
                self._topics[topic] = known
        return known

    async def _let_go(self) -> None:
        slices = Slices()
        for number, tap in enumerate(list(self._taps), 1):
            tap.detach()
            if number % STEP == 0:
                await slices.breathe()
        self._taps.clear()

    def _opened(self, connection: Peer) -> None:
        socket = connection.socket
        assert isinstance(socket, ClientSocket)  # it is open
        if not self.active or connection.gate.closed or not self.wanted.is_about(connection):
            return
        if len(self._taps) >= MOST_TAPPED:
            return
        tap = Tap(socket, self)
        self._taps.add(tap)
        tap.attach()
        if self.wanted.topic_filter is None and connection.client is not None:
            self.watch(connection.client)

    def connected(self, tap: Tap) -> None:
        """A CONNECT has been handled: is it about this client?"""
        if not self.wanted.is_about(tap.connection):
            tap.detach()
            self.forget(tap)
        elif self.wanted.topic_filter is None and tap.connection.client is not None:
            self.watch(tap.connection.client)

    def forget(self, tap: Tap) -> None:
        """A connection is closed, or is not of interest."""
        self._taps.discard(tap)

    # -- sessions

    def watch(self, client: Client) -> WatchedSession | None:
        """Tell what is decided about the session from now on; None if too many are watched."""
        client_id = client.session.client_id
        watched = self._watched.get(client_id)
        if (watched is None and len(self._watched) < MOST_WATCHED) or (watched and watched.client is not client):
            watched = self._watched[client_id] = WatchedSession(client)
        return watched

    def watch_receivers(self, topic: bytes) -> None:
        """Watch the sessions that get messages of a topic, if the trace is about topics."""
        if self.wanted.topic_filter is None:
            return
        receivers = self._receivers(topic)
        for outbound in [] if receivers is None else _sessions(receivers):
            client = self._broker.clients.get(_client_id(outbound))
            if client is not None:
                self.watch(client)

    def routed(self, topic: bytes, publisher: Outbound | None) -> Decision:
        """Where a message that has just been handled has gone; `topic` is its name here."""
        receivers = self._receivers(topic)
        if receivers is None or not len(receivers):
            return "routed", "to nobody: there is no matching subscription"
        sessions = list(_sessions(receivers, publisher))
        groups = len(receivers.groups)
        if not sessions and not groups:
            return "routed", "to nobody: only its publisher has subscribed, with No Local"
        names = [repr(shortened(_client_id(each))) for each in sessions[:MOST_RECEIVERS]]
        names += [f"{groups} shared subscriptions"] if groups else []
        more = len(sessions) - MOST_RECEIVERS
        return "routed", f"to {', '.join(names)}" + (f" and {more} more" if more > 0 else "")

    def _receivers(self, topic: bytes) -> Receivers | None:
        try:
            return self._broker.router.receivers(topic)
        except MQTTError:
            return None

    async def _look(self) -> None:
        """Tell what has been decided since the last look, in slices: there may be MOST_WATCHED sessions."""
        clients = self._broker.clients
        if self.wanted.client_id is not None and self.wanted.client_id not in self._watched:
            client = clients.get(self.wanted.client_id)
            if client is not None:
                self.watch(client)
        slices = Slices()
        for number, (client_id, watched) in enumerate(list(self._watched.items()), 1):
            for event, text in watched.look():
                self._tell(client_id, event, text=text)
            if not clients.knows(watched.client) and self._watched.get(client_id) is watched:
                del self._watched[client_id]  # the session has ended: others can be watched
            if number % STEP == 0:
                await slices.breathe()
        for number, tap in enumerate([each for each in islice(self._taps, MOST_WATCHED) if each.told], 1):
            for event, text in tap.reading.look():
                self.tell(tap, event, text=text)
            if number % STEP == 0:
                await slices.breathe()
        await slices.pause()
        self.took += slices.us / SECOND

    # -- lines

    def tell_packet(self, tap: Tap, event: str, packet: Packet | str, topic: bytes) -> None:
        """Tell of a packet that a client sends or is sent."""
        if isinstance(packet, str):
            self.tell(tap, event, text=packet)
            return
        text = in_words(packet, self._payload, self._names_may_be_tokens)
        self.tell(tap, event, name(packet), topic.decode(errors="replace"), text)

    def tell(self, tap: Tap, event: str, packet: str = "", topic: str = "", text: str = "") -> None:
        """Tell something of a connection."""
        connection = tap.connection
        identity = None if connection.client is None else connection.client.identity
        user = None if identity is None else identity.user
        self._tell(connection.client_id, event, packet, topic, text, user=user, address=tap.socket.host())

    def _tell(
        self,
        client_id: str | None,
        event: str,
        packet: str = "",
        topic: str = "",
        text: str = "",
        *,
        user: str | None = None,
        address: str = "",
    ) -> None:
        if self._left <= 0 or (not self.active and event != "ended"):
            return
        self._left -= 1
        if len(self._pending) >= MOST_PENDING:
            self._lost += 1
            return
        line: dict[str, object] = {
            "at": datetime.now(UTC).isoformat(timespec="microseconds"),
            "client_id": None if client_id is None else shortened(client_id),
            "user": None if user is None else shortened(user),
            "address": address or None,
            "event": event,
            "packet": packet or None,
            "topic": shortened(topic) or None,
            "text": shortened(text),
            "lost": self._lost,
        }
        self._pending.append(line)
        self._news.set()
        if not self._left:
            self.active = False
            ended: dict[str, object] = dict.fromkeys(line)
            ended |= {"at": line["at"], "lost": self._lost, "event": "ended"}
            self._pending.append(ended | {"text": "the limit of lines is reached"})


def _sessions(receivers: Receivers, publisher: Outbound | None = None) -> Iterable[Outbound]:
    """All that get a message of this publisher, which with No Local gets none of its own."""
    for route in (*receivers.routes, *receivers.special):
        if not route.no_local or route.own is not None or route.outbound is not publisher:
            yield route.outbound


def _client_id(outbound: Outbound) -> str:
    """Whose session it is."""
    host = outbound.sender.host
    if isinstance(host, Connection):
        return host.client_id
    return host.session.client_id if isinstance(host, DetachedHost) and host.session is not None else ""


def _same_address(one: str, other: str) -> bool:
    """`one` is a client's, `other` may be written in any form."""
    try:
        asked = ip_address(other)
        if isinstance(asked, IPv6Address):
            asked = asked.ipv4_mapped or asked
        return ip_address(one.partition("%")[0]) == asked
    except ValueError:
        return False
