"""The broker's core: clients and their sessions, routing, retained messages, wills. `Server` gives it sockets."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import structlog

from broker.addresses.book import AddressBook, AddressFull
from broker.addresses.policy import Addresses
from broker.auth.access import Access
from broker.auth.topic_rules import Authorization
from broker.connection.capabilities import Capabilities
from broker.connection.connection import Connection
from broker.connection.connection_rate import ConnectionRate
from broker.connection.log import log_disconnected, log_refused
from broker.connection.publishing import read_expiry
from broker.connection.replies import PublishRefused, in_words
from broker.routing.retained import Retained
from broker.routing.router import Router
from broker.routing.shared_groups import GroupsHost, SharedGroups
from broker.runtime.clock import SECOND
from broker.runtime.scheduler import RunQueue
from broker.runtime.timers import Wheel
from broker.sessions import (
    NEVER_EXPIRES,
    Away,
    Client,
    Ended,
    ExpiryTimer,
    WillTimer,
    will_delay,
    will_publish,
)
from broker.settings import address_rule, microseconds, session_limits, whole_seconds
from broker.totals import Totals
from config.models import Config
from protocol import reason_codes
from protocol.connect import Will
from protocol.errors import MQTTError
from protocol.publish import Publish
from session.outbound import Outbound
from session.session import Session

if TYPE_CHECKING:
    from broker.addresses.paging.paging import Paging

ENDED_SESSIONS: Final = 100_000
"""Last counters of ended sessions that are kept for the next export; past that the oldest are given up, and counted."""


def open_paging(config: Config) -> "Paging | None":
    """Where addresses page, also if none does: earlier runs may have left pages there. Raises OSError."""
    if config.paging.directory is None:
        return None
    from broker.addresses.paging.paging import Paging

    return Paging(config.paging.directory, config.node_name)


@final
class Broker:
    """Everything that connections share."""

    def __init__(self, config: Config, now: int, gate: bool = True) -> None:
        self.limits = session_limits(config, gate)
        mqtt = config.mqtt
        self.capabilities = Capabilities(config)
        self.access = Access(config)
        self.authorization = Authorization(config)
        self.selective = self.capabilities.selective
        """Whether a PUBLISH without properties has to be checked too."""
        self.max_packet_size: int = mqtt.max_packet_size
        self.max_topic_levels: int = mqtt.max_topic_levels
        self.max_clientid_len: int = mqtt.max_clientid_len
        self.max_connections: int = mqtt.max_connections
        rate = mqtt.max_connection_rate
        self.connection_rate = ConnectionRate(rate) if rate else None
        self.connect_timeout: int = microseconds(mqtt.connect_timeout)
        self.keepalive_multiplier: float = mqtt.keepalive_multiplier
        self.session_expiry_interval: int = whole_seconds(mqtt.session_expiry_interval)
        self.max_session_expiry_interval: int = whole_seconds(mqtt.max_session_expiry_interval)
        self.wheel = Wheel(now)
        self.run_queue = RunQueue()
        self.router = Router(
            self.max_topic_levels,
            mqtt.overlapping_subscriptions == "merge",
            authorization=self.authorization,
            shared=SharedGroups(self.limits, GroupsHost(self)),
            addresses=AddressBook([(own.match, address_rule(own)) for own in config.addresses]),
        )
        self.addresses = Addresses(self, config.session.producer_window_size, open_paging(config))
        self.producer_max_rate: int = config.session.producer_max_rate
        """FC-23: PUBLISHes a second; 0 = no limit."""
        self.retained = Retained(self.wheel)
        self.totals = Totals()
        self.clients: dict[str, Client] = {}
        self.connections: set[Connection] = set()
        self.online = 0
        """Connections that have a session."""
        self.ended: list[Ended] = []
        """Last counters of the sessions that have ended since the last export."""
        self.ended_lost = 0
        self.keep_ended = False
        """Whether anybody collects `ended`."""
        self.on_last_gone: Callable[[], None] | None = None
        """Called whenever no connection is left: the server waits for that when it stops."""
        self.log = structlog.get_logger("sluice")
        self.debug = config.log.level == "debug"
        """Whether connections and subscriptions are logged."""

    # -- messages

    def publish(self, publish: Publish, publisher: Session) -> bool:
        """Route a PUBLISH, and retain it if it says so; returns whether anybody is subscribed.

        Raises PublishRefused, and AddressFull if it has to wait for room (FC-24).
        """
        try:
            matched = self.router.route(publish, publisher.outbound)
        except PublishRefused:
            client_id = publisher.client_id
            if not self.authorization.may_tell_state(client_id, publish.topic, publish.payload, publish.retain):
                raise
            matched = self.router.route_late(publish, publisher.outbound)
        if publish.retain:
            self.retained.store(publish, publisher.client_id)
        return matched

    def publish_late(self, publish: Publish, client_id: str, now: int) -> bool:
        """The same for a PUBLISH that has waited for room, or is not to."""
        publish.received_at = now
        matched = self.router.route_late(publish, self.outbound(client_id))
        if publish.retain:
            self.retained.store(publish, client_id)
        return matched

    def outbound(self, client_id: str) -> Outbound | None:
        """The deliveries to a client; None if it has no session (any more)."""
        client = self.clients.get(client_id)
        return None if client is None else client.session.outbound

    def publish_will(self, client: Client, publish: Publish, now: int) -> None:
        """Publish a will: it counts as sent by its client, which may not want its own messages [MQTT-3.8.3-3]."""
        publish.received_at = now
        if publish.properties is not None:
            read_expiry(publish, publish.properties, now)
        try:
            self.publish(publish, client.session)
        except AddressFull as full:
            self.addresses.overflow_will(client.session, publish, full.address, now)

    # -- connections

    def connected(self, connection: Connection) -> None:
        """A client has opened a connection."""
        self.connections.add(connection)
        self.totals.sockets += 1

    def disconnected(self, connection: Connection, now: int) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        self.part(connection, now)
        if self.debug:
            log_disconnected(connection)
        if not self.connections and self.on_last_gone is not None:
            self.on_last_gone()

    def part(self, connection: Connection, now: int) -> None:
        """A connection has ended, or is about to: its session goes on without it; nothing happens if it has none."""
        client = connection.client
        if client is not None and client.connection is connection:
            client.connection = None
            self.detach(connection, client, now, True)

    def detach(self, connection: Connection, client: Client, now: int, stays: bool) -> None:
        """Part a client's session from its connection; `stays` is False if a clean start is to end the session."""
        if self.debug:
            log_disconnected(connection)
        task = connection.task
        if task is not None:
            task.stop()
            connection.task = None
        connection.session = None
        connection.client = None
        self.online -= 1
        will = connection.will
        connection.will = None
        client.session.disconnect(Away(self, client), now)
        expiry = client.expiry_interval if stays else 0
        if will is not None:
            self._schedule_will(client, will, expiry, now)
        if expiry == 0:
            self.end_session(client, now)
        elif expiry != NEVER_EXPIRES:
            client.expires_at = now + expiry * SECOND
            self.wheel.add(client.expires_at, ExpiryTimer(self, client))

    def _schedule_will(self, client: Client, will: Will, expiry: int, now: int) -> None:
        delay = will_delay(will, expiry)
        publish = will_publish(will)
        if delay == 0:
            self.publish_will(client, publish, now)
            return
        client.will = WillTimer(self, client, publish)
        self.wheel.add(now + delay * SECOND, client.will)

    # -- sessions

    def new_client(self, client_id: str, now: int) -> Client:
        """Register a client with a fresh session. The id must not be in use."""
        client = Client(client_id, self, now)
        self.clients[client_id] = client
        return client

    def end_session(self, client: Client, now: int) -> None:
        """Forget a session that has no connection: subscriptions, what waits, its delayed will is published now."""
        session = client.session
        client.expires_at = 0
        del self.clients[session.client_id]
        subscriptions = session.subscriptions
        if subscriptions is not None:
            for topic_filter in subscriptions:
                self.router.unsubscribe(session.outbound, topic_filter)
        session.outbound.end(now)
        self.addresses.end_session(session, now)
        self.totals.take(client, session.outbound.counters)
        if self.keep_ended:
            if len(self.ended) >= ENDED_SESSIONS:
                self.ended_lost += 1
            else:
                self.ended.append(Ended(session, session.take_counters(now)))
        if client.will is not None:
            client.will.due(now)  # section 3.1.3.2.2: the session's end does not let a will wait longer

    # -- what operators read

    def report(self, event: str, client: Client | None, detail: str = "") -> None:
        """Log something about a client, once per episode, and count it if $SYS tells how often it happens."""
        self.totals.count_event(event)
        client_id = "" if client is None else in_words(client.session.client_id)
        if detail:
            self.log.warning(event, client_id=client_id, detail=detail)
        else:
            self.log.warning(event, client_id=client_id)

    def refused(self, connection: Connection, error: MQTTError) -> None:
        """Log that a client broke the protocol."""
        log_refused(self, connection, error)

    def report_refused(self, event: str, session: Session, listener: str, error: MQTTError) -> None:
        """Log a refusal, in a line whose length is bounded: it quotes what the client has sent."""
        self.log.info(
            event,
            client_id=in_words(session.client_id),
            listener=listener,
            reason=reason_codes.name(error.reason_code),
            detail=in_words(error.message),
        )
