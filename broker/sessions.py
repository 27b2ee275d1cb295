"""Starts, detaches, expires and ends sessions."""

from collections.abc import Callable
from typing import Final, final

from broker.addresses.policy import Addresses
from broker.auth.authorizer import Authorizer
from broker.auth.identity import Identity
from broker.clients import NEVER_EXPIRES, Client, Clients
from broker.events import Events
from broker.quotas.quotas import Quotas
from broker.routing.messages import Messages
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.timers import Timer, Wheel
from broker.storage.journal import Journal
from broker.storage.kept_session import KeptSession
from broker.storage.kept_will import KeptWill
from broker.storage.owner import Owner
from broker.totals import Totals
from broker.wills import Wills, will_delay, will_publish
from protocol import reason_codes
from protocol.connect import BRIDGE, Will
from protocol.errors import MQTTError
from protocol.topics import SHARE_PREFIX, split_share
from session.counters import Counters
from session.drops import DropLog
from session.host import Host
from session.limits import Limits
from session.session import Session

MOST_ENDED: Final = 32 * 1024 * 1024
"""Bytes of the last rows of ended sessions that are kept for the next export; those past that are lost, and counted."""
ENOUGH_ENDED: Final = MOST_ENDED // 4
"""From so many bytes on the next export does not wait for its time."""
_ROW: Final = 1_024
"""Bytes of a row with short names, with the columns that are made of it."""
_COPIES: Final = 5
"""Of a name, in the columns, sorted columns and buffers of an export."""


def _nobody() -> None:
    """Nobody exports what has ended."""


@final
class Ended:
    """The last metrics row of an ended session, and no more: many sessions may end within one interval."""

    def __init__(self, session: Session, counters: Counters, share_groups: list[str]) -> None:
        self.client_id = session.client_id
        self.listener = session.listener
        self.version = session.version
        self.created_at = session.created_at
        self.counters = counters
        self.share_groups = share_groups


@final
class Sessions:
    """Starts and ends sessions."""

    def __init__(  # noqa: PLR0913, PLR0917 - one per part, made in one place
        self,
        clients: Clients,
        limits: Limits,
        wheel: Wheel,
        messages: Messages,
        addresses: Addresses,
        totals: Totals,
        events: Events,
        quotas: Quotas,
        journal: Journal | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.clients = clients
        self.wheel = wheel
        self.totals = totals
        self.events = events
        self.quotas = quotas
        self.wills = Wills(messages, addresses, wheel, events)
        self.ended: list[Ended] = []
        """The sessions that ended since the last export."""
        self.ended_bytes = 0
        """What their rows count for; set to 0 with each export."""
        self.on_many_ended: Callable[[], None] = _nobody
        """Called when there are ENOUGH_ENDED bytes of them."""
        self.ended_lost = 0
        self.keep_ended = False
        """Whether `ended` is exported."""
        self._limits = limits
        self._messages = messages
        self._addresses = addresses
        self._journal = journal
        self.authorizer = authorizer
        self.new_drop_log: Callable[[str], DropLog | None] | None = None
        """FC-35: who is told of the drops of a client's session, by its id; None = nobody."""
        self.on_back: Callable[[str, Identity | None, int], None] | None = None
        """Told of each client that connects, by id and user, while wills wait for clients after a restart."""
        self._last_end = 0
        """The commit with the last record that a kept session has ended."""

    @property
    def durable(self) -> bool:
        """Whether sessions can survive the process (FC-27)."""
        return self._journal is not None

    def admit(self, client_id: str, identity: Identity | None, kept: bool, clean_start: bool, now: int) -> None:
        """Raise MQTTError if a client may not connect: for its quota (FC-31), or without room on disk (FC-29)."""
        self.quotas.admit(client_id, identity, kept, clean_start, now)
        if kept and self._journal is not None and not self._journal.commits.has_room():
            client = self.clients.get(client_id)
            held = client is not None and client.kept is not None and client.belongs_to(identity)
            if clean_start or not held:
                message = "a new session to be kept while the journal, or its disk, is full"
                raise MQTTError(reason_codes.QUOTA_EXCEEDED, message)

    def new(self, client_id: str, now: int) -> Client:
        """Register a client with a new session. The id must not be in use."""
        host = DetachedHost(self)
        client = Client(client_id, self._limits, host, now)
        host.session = client.session
        if self.new_drop_log is not None:
            client.session.counters.drop_log = self.new_drop_log(client_id)
        self.clients.add(client)
        return client

    def keep(self, client: Client, version: int, owner: Owner, will: Will | None) -> int:
        """FC-27: write the session of a client that has connected to the journal, if it outlives the connection.

        Of another one its will is written, if there is room (FC-29): it is published even if the broker fails.
        There is a journal: sessions are durable. Returns the commit that has to come before CONNACK; 0 = none.
        """
        journal = self._journal
        kept = client.kept
        assert journal is not None  # sessions are durable
        level = version | BRIDGE if client.bridge else version
        if client.expiry_interval == 0 and (kept is None or not _keeps_until_end(client, kept)):
            client.kept = None
            client.session.keep(None, None)
            if kept is not None:
                self._last_end = kept.end()
            if will is not None and journal.commits.has_room():  # FC-29
                client.kept_will = KeptWill(journal, journal.new_queue(), client.session.client_id, level, owner)
                return client.kept_will.write(will_publish(will))
            return self._last_end  # a clean start: the end of the older session has to be on disk too
        if kept is None:
            kept = KeptSession(journal, journal.new_queue(), client.session.client_id)
            self._begin_keeping(client, kept)
        publish = will_publish(will) if will is not None else None
        delay = will_delay(will, client.expiry_interval) if will is not None else 0
        return kept.connected(level, client.expiry_interval, owner, publish, delay)

    def _begin_keeping(self, client: Client, kept: KeptSession) -> None:
        """Write a session to the journal that has not been written so far."""
        client.kept = kept
        client.session.keep(kept, kept)
        for name, subscription in (client.session.subscriptions or {}).items():
            kept.subscriptions[name] = subscription
            router = self._messages.router
            if split_share(name)[0]:
                router.shared.keep(name)
            elif router.cells is not None:
                router.cells.subscribes(client.session.outbound, subscription, False)  # it is kept from now on

    def detach(self, client: Client, will: Will | None, now: int, keep: bool) -> None:
        """Detach a session from its closed connection; `keep` is False if a clean start ends the session."""
        self.clients.note_detached(client)
        self.quotas.detach(client)
        host = DetachedHost(self)
        host.session = client.session
        client.session.disconnect(host, now)
        cells = self._messages.router.cells
        if cells is not None:
            cells.detached(client.session.outbound)
        expiry = client.expiry_interval if keep else 0
        if will is not None:
            self.wills.schedule(client, will, expiry, now)
        if client.kept is not None and expiry:
            client.kept.detached(expiry, client.will is not None)
        if expiry == 0:
            self.end(client, now)
        elif expiry != NEVER_EXPIRES:
            self.expire_at(client, now + expiry * SECOND)

    def expire_at(self, client: Client, at: int) -> None:
        """End a detached session at this time, unless its client connects before."""
        client.expires_at = at
        self.wheel.add(at, ExpiryTimer(self, client))

    def end(self, client: Client, now: int) -> None:
        """Discard a detached session with its subscriptions and queues; a delayed will is published now."""
        session = client.session
        groups = _groups(session) if self.keep_ended else []
        if client.kept is not None:
            self._last_end = client.kept.end()
        client.expires_at = 0
        subscriptions, session.subscriptions = session.subscriptions, None  # first: a SUBACK may have waited for these
        if subscriptions is not None:
            for topic_filter in subscriptions:
                self._messages.router.unsubscribe(session.outbound, topic_filter)
        if self.authorizer is not None:
            self.authorizer.forget(session.outbound)
        session.end(now)
        self._addresses.end_session(session, now)
        if client.will is not None:
            client.will.due(now)  # section 3.1.3.2.2: the will is published when the session ends
        if client.kept_will is not None:
            client.kept_will.end()  # in the commit that has its message
        self.totals.add(session.listener, client.walk, session.counters)
        if self.keep_ended:
            self._keep_ended(session, groups, now)
        self.clients.remove(client)
        self.quotas.leave(client)
        # Timers may hold the session for another HORIZON, and its client may begin and end many of them.
        session.client_id = ""

    def _keep_ended(self, session: Session, groups: list[str], now: int) -> None:
        """Keep its last row for the next export, if there is room."""
        size = _ROW + _COPIES * (len(session.client_id) + sum(map(len, groups)))
        if self.ended_bytes + size > MOST_ENDED:
            self.ended_lost += 1
            return
        self.ended_bytes += size
        self.ended.append(Ended(session, session.take_counters(now), groups))
        if self.ended_bytes >= ENOUGH_ENDED:
            self.on_many_ended()

    def expire(self, client: Client, now: int) -> None:
        """End a detached session whose expiry interval has passed."""
        self.totals.expired += 1
        self.end(client, now)


def _groups(session: Session) -> list[str]:
    """The groups that it is a member of (FC-13), sorted."""
    return sorted([each for each in session.subscriptions or () if each.startswith(SHARE_PREFIX)])


def _keeps_until_end(client: Client, kept: KeptSession) -> bool:
    """Whether the journal has to keep a session until its connection has ended, although it ends then.

    It holds deliveries that are on disk only, or that groups get back when it ends (FC-13).
    """
    return kept.evicted.length > 0 or bool(client.session.outbound.sender.sources)


@final
class DetachedHost(Host):
    """The host of a session without a connection: deliveries are stored in its mqueue (FC-7)."""

    def __init__(self, sessions: Sessions) -> None:
        self.session: Session | None = None
        self._sessions = sessions

    def wake(self) -> None:
        """Store the mailbox at once: a detached session has no passes."""
        if self.session is not None:
            self.session.store_offline(monotonic_us())

    def arm(self, at: int) -> None:
        """Set a timer of the session."""
        if self.session is not None:
            self._sessions.wheel.add(at, SessionTimer(self.session))

    def report(self, event: str, detail: str = "") -> None:
        """Log an event with the client id."""
        self._sessions.events.report(event, "" if self.session is None else self.session.client_id, detail)

    def route_parked(self, now: int) -> None:
        """Nothing to do: detaching discards what the client has parked."""

    def close(self, reason_code: int, reason: str) -> None:
        """Nothing to do: the client is not connected."""

    def pause_publishing(self) -> None:
        """Nothing to do: the client is not connected."""

    def resume_publishing(self) -> None:
        """Nothing to do: the client is not connected."""


@final
class SessionTimer(Timer):
    """The timer of a session, connected or not (FC-8, FC-14, FC-16, FC-22)."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._number = session.sender.timers_set

    def wanted(self) -> bool:
        """False if another timer has replaced this one, or the session has ended."""
        sender = self.session.sender
        return sender.timer_at != 0 and sender.timers_set == self._number

    def due(self, now: int) -> None:
        """Run what is due in the session, then wake its host."""
        self.session.on_timer(now)
        self.session.wake()


@final
class ExpiryTimer(Timer):
    """Ends a detached session when its expiry interval has passed (section 3.1.2.11.2)."""

    def __init__(self, sessions: Sessions, client: Client) -> None:
        self.sessions = sessions
        self.client = client

    def wanted(self) -> bool:
        """False if the client has connected again since, or the session has ended."""
        return self.client.expires_at == self.at

    def due(self, now: int) -> None:
        """End the session, unless the client has connected again."""
        if self.wanted():
            self.sessions.expire(self.client, now)
