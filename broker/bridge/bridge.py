"""One bridge: its session here, and the connection to the remote broker, which it opens again and again.

A bridge is a session whose client is another broker. session/FLOW-CONTROL.md
has the rules of its queue, as for any client. This file has what a client decides itself: when and how it connects.
"""

import asyncio
import ssl
from typing import Final, final

from broker.bridge.backoff import Backoff
from broker.bridge.client_side import ClientSide, Initiator
from broker.bridge.connect import connect_of
from broker.bridge.dial import Secrets, dial, read_secrets
from broker.bridge.incoming import Incoming
from broker.bridge.local_session import LocalSession
from broker.bridge.outgoing import Outgoing
from broker.bridge.status import CONNECTED, CONNECTING, ENDED, IDLE, WAITING, Status
from broker.bridge.topics import Topics
from broker.broker import Broker
from broker.connection.client_socket import ClientSocket
from broker.connection.connection import Connection
from broker.connection.peer import Peer
from broker.routing.via import broker_id
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.os_errors import text_of
from broker.runtime.timers import Timer
from broker.settings import microseconds
from config.bridge import Bridge as Settings
from config.urls import masked
from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.errors import MQTTError
from protocol.publish import Publish
from protocol.replies import shortened, topic_name
from protocol.subscribe import Subscription
from session.session import Session, tell_refused

DIAL_TIMEOUT: Final = 30.0
"""Seconds in which TCP and TLS have to be open."""
LOOK: Final = SECOND
"""Microseconds between two looks whether a lazy bridge has something to send."""
EPISODE: Final = 60 * SECOND
"""Microseconds: the same failure is logged once in this time, and so are refused messages."""

_ONLINE: Final = b"1"


@final
class Bridge(Initiator):
    """A bridge of the configuration."""

    def __init__(self, broker: Broker, settings: Settings, node_name: str, now: int) -> None:
        self.settings = settings
        self.status = Status(now)
        self.connection: Connection | None = None
        self._broker = broker
        self._node_name = node_name
        self._side = ClientSide(self, broker.wheel)
        self._incoming = Incoming(broker.publishing, broker.messages, broker.addresses, broker.events, self.status)
        self._handlers = broker.new_handlers(self._side, self._incoming)
        self.session = LocalSession(broker, settings)
        self._topics = Topics([], 0)
        self._backoff = Backoff(SECOND, SECOND)
        self._position = 0
        """The next address."""
        self._attempt: asyncio.Task[None] | None = None
        self._password: bytes | None = None
        self._stopped = False
        self._plans = 0
        """How often something has been planned: the last plan counts."""
        self._connected_at = 0
        self._sent = 0
        """lazy: what had been sent at the last look."""
        self._quiet_since = 0
        self._asked: dict[str, int] = {}
        """Topic filters that the remote session may have, by what this process has asked for; the QoS asked for."""
        self._granted: set[str] = set()
        """Those of them that the remote broker has confirmed."""
        self._private = settings.try_private
        """Whether the protocol level says that this is a bridge, with MQTT 3.1.1."""
        self._private_taken = False
        """Whether the remote broker has accepted that level."""
        self._session_present = False
        self._explained = False
        """Whether it is known why the connection ends."""
        self._told = ("", 0)
        """The last failure that was logged, and when."""
        self._refusal_told_at = 0
        self._stuck_told_at = 0

    # -- its beginning and end

    def start(self, now: int) -> None:
        """Begin, or go on with other settings: the session stays."""
        settings = self.settings
        self._stopped = False
        self._topics = Topics(settings.topics, self._broker.settings.max_topic_levels)
        self._incoming.topics = self._topics
        self._side.timeout = self._broker.settings.connect_timeout
        self._side.keep_alive = int(settings.keepalive) * SECOND
        self._side.leaves_will = settings.state_topic is not None
        self._side.suspect.forget()
        self._backoff = Backoff(microseconds(settings.reconnect_min), microseconds(settings.reconnect_max))
        self._position = 0
        self._private = settings.try_private
        self._private_taken = False
        if not settings.clean_start:
            self.session.begin(settings, self._topics, now)
        if settings.start == "lazy":
            self.status.enter(IDLE, now)
            self._plan(now + LOOK, now)
        else:
            self.connect(now)

    def use(self, settings: Settings, now: int) -> None:
        """The configuration has changed: connect again, by the new one."""
        self._disconnect("the configuration of the bridge has changed")
        if settings.clean_start:
            self.session.end(now)
        self.settings = settings
        self.start(now)

    def stop(self) -> None:
        """Do not connect again. The session and an open connection stay."""
        self._stopped = True
        self._plans += 1
        attempt, self._attempt = self._attempt, None
        if attempt is not None and (self.connection is None or self.connection.socket.transport is None):
            attempt.cancel()  # what is open is not told if uvloop closes it for this

    def _disconnect(self, reason: str) -> None:
        self.stop()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close(reason=reason)

    def remove(self, now: int) -> None:
        """The bridge is not configured any more: its session ends, here and at the remote broker if it is connected."""
        self._side.ends_session = True
        self._disconnect("the bridge is removed")
        self.session.end(now)

    # -- connecting

    def connect(self, now: int) -> None:
        """Open a connection, unless there is one or one is being opened."""
        if self._attempt is not None or self.connection is not None or self._stopped:
            return
        self._plans += 1
        self._explained = False
        self.status.next_at = 0
        self.status.enter(CONNECTING, now)
        self._attempt = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        remotes = self.settings.remotes
        address = remotes[self._position % len(remotes)]
        remote = self.status.remote = masked(str(address))
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                secrets: Secrets = await read_secrets(self.settings, address)
                self._password = secrets.password
                most = self._broker.settings.max_packet_size
                await dial(address, self.settings, secrets.context, most, self._new_socket)
        except TimeoutError:
            self._not_opened(f"{remote} has not answered within {DIAL_TIMEOUT:g} s")
        except ssl.SSLCertVerificationError as error:
            self._not_opened(f"{remote}: its certificate is not valid: {error.verify_message}")
        except (OSError, UnicodeError) as error:
            self._not_opened(f"{remote}: {text_of(error) if isinstance(error, OSError) else error}")
        except Exception as error:  # of a library: the bridge has to go on
            self._not_opened(f"{remote}: {error!r}")
        if self._attempt is not asyncio.current_task():
            return  # it is stopped
        self._attempt = None
        now = monotonic_us()
        if self.connection is None:
            self._again(now)
        else:
            self._side.limit_handshake(self.connection, now)

    def _new_socket(self) -> ClientSocket:
        socket = ClientSocket(self._handlers, self.settings.local_id)
        connection = self.connection = socket.connection
        connection.client_id = self.settings.local_id
        return socket

    def _not_opened(self, why: str) -> None:
        if self._attempt is asyncio.current_task():
            self.connection = None  # uvloop makes it before it connects
            self._failed(why)

    def _failed(self, why: str) -> None:
        """Note why it is not connected, and log it."""
        now = monotonic_us()
        self._explained = True
        self.status.failure = why
        self.status.failures += 1
        told, at = self._told
        if why != told or now >= at + EPISODE:
            self._told = (why, now)
            self._broker.events.log.warning(
                "bridge_failed", bridge=self.settings.name, remote=self.status.remote, detail=shortened(why)
            )

    def failed(self, connection: Peer, error: MQTTError) -> None:
        """The remote broker has refused the connection or broken the protocol: the connection ends."""
        if error.reason_code == reason_codes.UNSUPPORTED_PROTOCOL_VERSION:
            self._private = self._private_taken = False  # some know no protocol level of bridges
        connection.why = error.message
        self._failed(error.message)

    def closed(self, connection: Peer, now: int) -> None:
        """A connection is closed: connect again, later."""
        if self.connection is not connection:
            return
        self.connection = None
        if not (self._explained or self._stopped):
            if self._connected_at == 0 and not self._private_taken:
                self._private = self.settings.try_private and not self._private  # it may have been closed for that
            self._failed(connection.why)
        if self._connected_at and not self._stopped and self.session.client is not None:
            self._note_end(self.session.client.session, now)
        if self._attempt is None:
            self._again(now)

    def _note_end(self, session: Session, now: int) -> None:
        """Tell if the connections end again and again with the same message unacknowledged."""
        suspect = self._side.suspect
        publish = suspect.ended(session, now)
        if publish is None:
            return
        topic, size = topic_name(publish.topic), publish.size
        self.status.failure += (
            f"; {suspect.ends} connections in a row have ended with the same message unacknowledged: "
            f"{topic!r}, {size} bytes"
        )
        if now >= self._stuck_told_at + EPISODE or self._stuck_told_at == 0:
            self._stuck_told_at = now
            self._broker.events.log.warning(
                "bridge_stuck", bridge=self.settings.name, topic=topic, size=size, connections=suspect.ends
            )

    def _again(self, now: int) -> None:
        """Plan the next attempt."""
        lasted = 0 if self._connected_at == 0 or self._side.lacks() else now - self._connected_at
        self._position = 0 if lasted and self.settings.address_order == "in_order" else self._position + 1
        self._connected_at = 0
        if self._stopped:
            return
        if lasted and self.settings.start == "once":
            self.status.enter(ENDED, now)
            return
        if self.settings.start == "lazy" and not self._has_work():
            self.status.enter(IDLE, now)
            self._plan(now + LOOK, now)
            return
        self.status.enter(WAITING, now)
        self.status.next_at = now + self._backoff.wait(lasted)
        self._plan(self.status.next_at, now)

    def _plan(self, at: int, now: int) -> None:
        self._plans += 1
        self._broker.wheel.add(at, BridgeTimer(self, self._plans))

    def is_planned(self, number: int) -> bool:
        """Whether this plan is the last one."""
        return self._plans == number

    def look(self, now: int) -> None:
        """What was planned for now: the next attempt, or a look at a lazy bridge."""
        if self.status.state == CONNECTED:
            self._look_whether_quiet(now)
        elif self.status.state != IDLE or self._has_work():
            self.connect(now)
        else:
            self._plan(now + LOOK, now)

    def _has_work(self) -> bool:
        return self.session.waiting() >= self.settings.lazy_threshold

    def _look_whether_quiet(self, now: int) -> None:
        """lazy: disconnect when nothing has been sent for long."""
        sent = self.session.sent(now)
        if sent != self._sent or self.session.waiting():
            self._sent, self._quiet_since = sent, now
        elif now >= self._quiet_since + microseconds(self.settings.lazy_idle) and self.connection is not None:
            self._explained = True
            self.connection.close(reason="nothing to send")
            return
        self._plan(now + LOOK, now)

    # -- CONNECT and CONNACK

    def connect_packet(self) -> Connect:
        """The CONNECT to begin with."""
        return connect_of(self.settings, self._broker, self._node_name, self._password, self._private)

    def accepted(self, connection: Peer, connack: Connack, now: int) -> tuple[list[Subscription], list[str]]:
        """Run the session on the connection. Returns what to subscribe to, and of what the subscriptions end."""
        own = self.settings
        version = connection.decoder.version
        told = connack.properties or {}
        if own.clean_start or not self.session.is_there():  # an operator may have ended it
            self.session.begin(own, self._topics, now)
        else:
            self.session.subscribe(now)
        retains = own.outgoing_retain and told.get(props.RETAIN_AVAILABLE) != 0
        outgoing = Outgoing(self._topics, self._broker.via, version, retains, broker_id(told) >= 0)
        if self.session.client is not None:
            self._side.suspect.begin(self.session.client.session, now)
        self.session.attach(connection, version, connack, outgoing, now)
        self._connected_at = now
        self._quiet_since = now
        self._private_taken = self._private
        self.status.connects += 1
        self.status.failures = 0
        self.status.failure = ""
        self.status.filters_refused = []
        self.status.enter(CONNECTED, now)
        self._told = ("", 0)
        if own.state_topic is not None:
            connection.socket.write(Publish(own.state_topic.encode(), _ONLINE, 0, outgoing.retains).encode(version))
        if own.start == "lazy":
            self._plan(now + LOOK, now)
        self._session_present = connack.session_present and not own.clean_start
        return self._subscriptions(version, self._session_present)

    def _subscriptions(self, version: int, session_present: bool) -> tuple[list[Subscription], list[str]]:
        """What to subscribe to, and what not any more; MQTT 3.1.1 gets the retained messages with each SUBSCRIBE."""
        wanted = {
            topic.remote_filter: Subscription(topic.remote_filter, topic.qos, True, True, 1 if session_present else 0)
            for topic in self.settings.topics
            if topic.comes_in
        }
        before, granted = (self._asked, self._granted) if session_present else ({}, set())
        kept = {name for name, each in wanted.items() if version == 4 and name in granted and before[name] == each.qos}
        self._asked = before | {name: each.qos for name, each in wanted.items()}
        self._granted = kept
        ended = [name for name in before if name not in wanted]
        return [each for name, each in wanted.items() if name not in kept], ended

    # -- what the remote broker refuses

    def refused(self, session: Session, packet: Puback | Pubrec, now: int) -> None:
        """The remote broker has refused a message for good: what is behind it goes on."""
        publish = tell_refused(session, packet.packet_id)
        if publish is None:
            return
        self.status.refused_out += 1
        if now >= self._refusal_told_at + EPISODE or self._refusal_told_at == 0:
            self._refusal_told_at = now
            self._broker.events.log.warning(
                "bridge_refused",
                bridge=self.settings.name,
                topic=topic_name(publish.topic),
                reason=reason_codes.name(packet.reason_code),
                refused=self.status.refused_out,
            )

    def subscribed(self, refused: list[str]) -> None:
        """Each SUBSCRIBE is answered; the filters that were refused."""
        self.status.filters_refused = list(refused)
        wanted = {topic.remote_filter for topic in self.settings.topics if topic.comes_in}
        self._asked = {name: qos for name, qos in self._asked.items() if name in wanted}
        self._granted = wanted.difference(refused)
        log, name = self._broker.events.log, self.settings.name
        log.info(
            "bridge_connected",
            bridge=name,
            remote=self.status.remote,
            version=self.settings.proto_ver,
            session_present=self._session_present,
            no_local=self.settings.proto_ver == "5" or self._private,
        )
        if refused:
            log.warning("bridge_not_subscribed", bridge=name, filters=shortened(", ".join(refused)))


@final
class BridgeTimer(Timer):
    """Does what a bridge has planned, unless it has planned something else since."""

    def __init__(self, bridge: Bridge, number: int) -> None:
        self._bridge = bridge
        self._number = number

    def wanted(self) -> bool:
        """False if another plan has replaced it."""
        return self._bridge.is_planned(self._number)

    def due(self, now: int) -> None:
        """Do it."""
        if self.wanted():
            self._bridge.look(now)
