"""CONNECT to CONNACK: admission, authentication, the session, CONNACK's properties."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, cast, final
from uuid import uuid4

from broker.auth.access import Access
from broker.auth.authenticators.chain import Outcome
from broker.auth.authenticators.turn import Turn
from broker.auth.authorizer import Authorizer
from broker.auth.exchange import Authentication
from broker.auth.identity import Identity, user_and_roles
from broker.auth.method import Answer
from broker.auth.permissions import Permissions, Who
from broker.clients import Client
from broker.connection.admission import Admission, will_refused
from broker.connection.capabilities import Capabilities, fit
from broker.connection.homes import Homes
from broker.connection.host_limits import HostLimits
from broker.connection.log import log_connected, log_taken_over
from broker.connection.newcomers import Newcomers
from broker.connection.peer import Peer
from broker.connection.subscribing import Subscribing
from broker.connection.timers import IdentityTimer, refuse_later
from broker.connection.turns import read_on, wait_for
from broker.events import Events
from broker.routing.via import Via, broker_id
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.read_gate import AUTHENTICATING
from broker.sessions import Sessions
from broker.settings import Settings
from broker.storage.owner import Owner
from broker.totals import Totals
from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.errors import MQTTError, ProtocolError
from protocol.packet import Packet
from protocol.properties import Properties
from session.session import Session

BRIDGE_RECEIVE_MAXIMUM: Final = 20
"""Receive Maximum that the broker assumes for a bridge by MQTT 3.1.1, which cannot state one. Mosquitto's bridges state
this value in MQTT 5 (`max_inflight_messages`); past it they acknowledge QoS 2 messages and discard them."""


@final
class Handshake:
    """Handles packets of clients that have no session yet, and AUTH."""

    def __init__(  # noqa: PLR0913, PLR0917 - one per part, made in one place
        self,
        settings: Settings,
        capabilities: Capabilities,
        access: Access,
        admission: Admission,
        sessions: Sessions,
        totals: Totals,
        events: Events,
        newcomers: Newcomers,
        subscribing: Subscribing,
        via: Via,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._settings = settings
        self._capabilities = capabilities
        self._access = access
        self._admission = admission
        self._sessions = sessions
        self._clients = sessions.clients
        self._totals = totals
        self._events = events
        self._newcomers = newcomers
        self._subscribing = subscribing
        self._via = via
        self.authorizer = authorizer
        self.homes: Homes | None = None
        """None: there is one cell."""
        self.host_limits: HostLimits | None = None
        """What limits are kept to by all cells together; None: there is one cell."""

    def on_packet(self, connection: Peer, packet: Packet, now: int) -> None:
        """Handle a packet of a client without a session. Raises MQTTError to refuse the client."""
        if isinstance(packet, Connect):
            self._on_connect(connection, packet, now)
        elif isinstance(packet, Auth):
            authentication = connection.authentication
            assert authentication is not None  # without it, CONNECT has been answered
            turn = authentication.turn(now)
            if turn is not None and turn.waits:
                self._wait_for_turn(connection, authentication, packet, turn, now)
            else:
                self._step(connection, authentication, partial(authentication.go_on, packet, turn), now)
        elif isinstance(packet, Disconnect):
            connection.close(reason="DISCONNECT by the client before CONNACK")
        else:
            raise ProtocolError(f"{type(packet).__name__} before CONNACK")  # [MQTT-3.1.2-30]

    def _on_connect(self, connection: Peer, packet: Connect, now: int) -> None:
        connection.client_id = packet.client_id
        homes = self.homes
        if homes is not None and packet.client_id and not homes.is_here(packet.client_id):
            self._newcomers.keep(connection, packet)
            homes.pass_on(connection, packet, now)
            return
        self._totals.connects += 1
        connection.maximum_packet_size = props.integer(packet.properties, props.MAXIMUM_PACKET_SIZE)
        limits = self.host_limits
        turn = None if limits is None else limits.rate(connection.socket.host())
        if turn is None:
            self._admission.check_rate(connection, now)
            self._authenticate(connection, packet, now)
        else:
            self._newcomers.keep(connection, packet)
            wait_for(connection, turn, partial(self._authenticate, connection, packet), now)

    def _authenticate(self, connection: Peer, packet: Connect, now: int) -> None:
        """Find out who has sent a CONNECT, now or later. Raises MQTTError to refuse the client."""
        self._admission.check(packet)
        method = (packet.properties or {}).get(props.AUTHENTICATION_METHOD)
        if method is not None:
            authentication = self._access.enhanced(str(method), packet, connection.listener, connection.socket.host())
            connection.authentication = authentication
            self._newcomers.keep(connection, packet)
            self._step(connection, authentication, authentication.begin, now)
            return
        listener, socket = connection.listener, connection.socket
        certified = self._access.certified(packet, listener, socket)
        if certified is not None:
            self._accept(connection, packet, {}, certified, now)
        elif self._access.check(packet, listener, socket):
            connection.gate.pause(AUTHENTICATING, now)
            self._newcomers.keep(connection, packet)
            on_answer = partial(self._on_answer, connection, packet)
            connection.turn = self._access.ask(packet, listener, socket, on_answer)
        else:
            self._accept(connection, packet, {}, None, now)

    def _on_answer(self, connection: Peer, packet: Connect, answer: Outcome) -> None:
        """Continue with a CONNECT about which the chain of authenticators has been asked."""
        connection.turn = None
        if connection.gate.closed:
            return  # by its client, or by `mqtt.connect_timeout`
        try:
            if isinstance(answer, MQTTError):
                raise answer
            self._admission.check(packet)  # others may have connected since
            self._accept(connection, packet, {}, answer, monotonic_us())
        except MQTTError as error:
            connection.fail(error)
            return
        read_on(connection)

    def _wait_for_turn(
        self, connection: Peer, authentication: Authentication, packet: Auth, turn: Turn, now: int
    ) -> None:
        waiting = turn.waiting
        assert waiting is not None  # it waits
        connection.gate.pause(AUTHENTICATING, now)
        connection.turn = turn
        waiting.add_done_callback(partial(self._on_turn, connection, authentication, packet, turn))

    def _on_turn(
        self,
        connection: Peer,
        authentication: Authentication,
        packet: Auth,
        turn: Turn,
        _: "asyncio.Future[None]",
    ) -> None:
        """Continue with an AUTH that had to wait for its turn."""
        connection.turn = None
        now = monotonic_us()
        if connection.gate.closed:
            authentication.leave(turn, now)
            return
        session = connection.session
        try:
            if session is None:
                self._step(connection, authentication, partial(authentication.go_on, packet, turn), now)
            else:
                self._reauthenticate(connection, session, packet, turn, now)
                connection.wake()
        except MQTTError as error:
            connection.fail(error)
            return
        if not authentication.delay:  # else it is refused later, and nothing is read until then
            read_on(connection)

    def _step(self, connection: Peer, authentication: Authentication, step: Callable[[int], Answer], now: int) -> None:
        """Take a step of the authentication exchange. Raises MQTTError to refuse, or refuses after a delay."""
        try:
            answer = step(now)
        except MQTTError as error:
            if not authentication.delay:
                raise
            refuse_later(self._sessions.wheel, connection, authentication.delay, error, now)
            return
        self._go_on(connection, authentication, answer, now)

    def _go_on(self, connection: Peer, authentication: Authentication, answer: Answer, now: int) -> None:
        """Answer a step of the authentication exchange: with AUTH, after the last step with CONNACK."""
        packet = authentication.connect
        assert packet is not None  # kept until there is a session
        if answer.user is None:
            connection.socket.write(authentication.reply(answer, connection.maximum_packet_size))
            return
        self._admission.check(packet)  # others may have connected since
        authentication.connect = None
        identity = self._access.scram_identity(answer.user)
        self._accept(connection, packet, authentication.properties(answer), identity, now)

    def _accept(
        self, connection: Peer, packet: Connect, own_properties: Properties, identity: Identity | None, now: int
    ) -> None:
        """Connect a client, once there is a place for it. Raises MQTTError to refuse it."""
        limits = self.host_limits
        turn = None
        if limits is not None:
            turn = limits.place(packet.client_id, identity, self._expiry_interval(packet) > 0)
        if turn is None:
            self._connect(connection, packet, own_properties, identity, now)
        else:
            self._newcomers.keep(connection, packet)
            wait_for(connection, turn, partial(self._connect, connection, packet, own_properties, identity), now)

    def _connect(  # noqa: PLR0915 - one step after the other
        self, connection: Peer, packet: Connect, own_properties: Properties, identity: Identity | None, now: int
    ) -> None:
        """Send CONNACK, with more properties added to `own_properties`, and start the session."""
        version = packet.version
        client_id = packet.client_id
        if not client_id:
            client_id = f"auto-{uuid4().hex}" if self.homes is None else self.homes.new_client_id()
            own_properties[props.ASSIGNED_CLIENT_IDENTIFIER] = client_id  # [MQTT-3.1.3-7]
            connection.client_id = client_id
        expiry_interval = self._expiry_interval(packet)
        keep_alive = self._capabilities.keep_alive(packet)
        asked = packet.properties or {}
        asked_expiry = props.integer(asked, props.SESSION_EXPIRY_INTERVAL)
        if version == 5:
            self._capabilities.announce(own_properties, asked, client_id)
            if broker_id(asked) >= 0:
                own_properties[props.USER_PROPERTY] = self._via.own
            if keep_alive != packet.keep_alive:
                own_properties[props.SERVER_KEEP_ALIVE] = keep_alive  # [MQTT-3.2.2-21]
            if expiry_interval != asked_expiry:
                own_properties[props.SESSION_EXPIRY_INTERVAL] = expiry_interval  # section 3.2.2.3.2
        maximum_packet_size = connection.maximum_packet_size
        connack = Connack(False, reason_codes.SUCCESS, own_properties if version == 5 else None)
        if maximum_packet_size:  # 0: any size
            fit(connack, own_properties, maximum_packet_size)
        permissions = self._permissions(connection, packet, identity, now)
        self._sessions.admit(client_id, identity, expiry_interval > 0, packet.clean_start, now)
        client, present = self._open_session(connection, packet.clean_start, identity, now)
        connack.session_present = present and not packet.mqtt31  # its byte is reserved in MQTT 3.1
        self._clients.note_broker(client, broker_id(asked))
        client.attach(connection, identity, expiry_interval, packet.bridge)
        client.asked_to_last = asked_expiry > 0
        self.attach(connection, client, permissions)
        connection.will = packet.will
        session = client.session
        if self._sessions.durable:
            commit = self._sessions.keep(client, version, _owner(connection, identity), packet.will)
            if commit:
                connection.socket.hold_until(commit)
        connection.socket.write(connack.encode(version))
        receive_maximum = BRIDGE_RECEIVE_MAXIMUM if packet.bridge else props.integer(asked, props.RECEIVE_MAXIMUM)
        connection.session = session  # needed by `arm`, which `connect` may call
        aliases = props.integer(asked, props.TOPIC_ALIAS_MAXIMUM)
        explain = asked.get(props.REQUEST_PROBLEM_INFORMATION) != 0  # [MQTT-3.1.2-29]
        via = None if client.broker_id < 0 else self._via
        session.connect(connection, version, receive_maximum, maximum_packet_size, now, aliases, explain, via)
        connection.start(session, int(keep_alive * SECOND * self._settings.keepalive_multiplier))
        if identity is not None and identity.expires_at:
            IdentityTimer(self._sessions.wheel, connection, identity.expires_at).start(now)
        log_connected(self._events, connection, packet, identity, expiry_interval, present)

    def _permissions(
        self, connection: Peer, packet: Connect, identity: Identity | None, now: int
    ) -> Permissions | None:
        """What the client may do; None without rules. Raises MQTTError if that does not include its will."""
        self._admission.check_will(packet)
        if packet.will is not None:
            self._sessions.quotas.admit_will(packet.will, connection.client_id, identity, now)
        authorizer = self.authorizer
        if authorizer is None:
            return None
        client_id = connection.client_id
        user, roles = user_and_roles(identity)
        host, listener = connection.socket.host(), connection.listener
        permissions = authorizer.permissions(Who(user, roles, client_id, host, listener, bridge=packet.bridge))
        will = packet.will
        if will is not None and not permissions.may_publish(will.topic, will.qos, will.retain):
            raise will_refused(will)
        return permissions

    def attach(self, connection: Peer, client: Client, permissions: Permissions | None) -> None:
        """The connection has a client, with these permissions."""
        connection.client = client
        session = client.session
        if session.listener and session.listener != connection.listener:
            self._totals.move(session.listener, connection.listener, client.walk, session.counters)
        session.listener = connection.listener
        told = session.limits.backpressure
        self._sessions.quotas.renew(client)
        if session.limits.backpressure != told and session.subscriptions:
            self._subscribing.forget_topics()  # FC-34: its queue tells publishers now, or does no longer
        before = client.permissions
        client.permissions = permissions
        if self.authorizer is not None and permissions is not None:
            self.authorizer.attach(session.outbound, permissions, bool(session.subscriptions))
            if before is not None and not before.equals(permissions):
                client.rights_changed = True
        if client.rights_changed:
            client.rights_changed = False
            self._subscribing.recheck(client)
            self._subscribing.recheck_waiting(client)
        self._clients.online += 1
        self._totals.most_online = max(self._totals.most_online, self._clients.online)

    def _open_session(
        self, connection: Peer, clean_start: bool, identity: Identity | None, now: int
    ) -> tuple[Client, bool]:
        """The client's session, and whether it was kept [MQTT-3.2.2-2, -3]. An older connection is closed first.

        The session of another user is not resumed: it may hold what this one must not receive. Raises MQTTError if it
        must not end either.
        """
        client_id = connection.client_id
        if self._sessions.on_back is not None:
            self._sessions.on_back(client_id, identity, now)
        client = self._clients.get(client_id)
        if client is not None and not (self._access.ends_foreign_sessions or client.belongs_to(identity)):
            raise MQTTError(reason_codes.NOT_AUTHORIZED, "the session with this client id is another user's")
        if client is not None and client.connection is not None:
            client.connection.read_to_end()  # it may have sent DISCONNECT
            client = self._clients.get(client_id)
        if client is not None:
            older = client.connection
            if older is not None:
                client.connection = None
                log_taken_over(self._events, cast("Peer", older), connection, now)
                # [MQTT-3.1.4-3]
                older.close(reason_codes.SESSION_TAKEN_OVER, "another connection has taken over this client id")
                older.detach(now, not clean_start and client.belongs_to(identity))
                client = self._clients.get(client_id)
        if client is not None:
            if not clean_start and client.belongs_to(identity):
                if client.will is not None:  # [MQTT-3.1.3-9]: reconnected before the delay was over
                    client.will.let_go()
                    client.will = None
                return client, True
            self._sessions.end(client, now)
        return self._sessions.new(client_id, now), False

    def _expiry_interval(self, packet: Connect) -> int:
        if packet.version == 4:
            return 0 if packet.clean_start else self._settings.session_expiry_interval
        asked = props.integer(packet.properties, props.SESSION_EXPIRY_INTERVAL)
        return min(asked, self._settings.max_session_expiry_interval)

    def reauthenticate(self, connection: Peer, session: Session, packet: Auth, now: int) -> None:
        """Answer a step of re-authentication. Raises MQTTError to close the connection, or closes it after a delay.

        It must be closed if a step fails [MQTT-4.12.1-2]. It is at once if its client has sent its last: then what is
        behind would be handled meanwhile.
        """
        authentication = connection.authentication
        if authentication is None:
            raise ProtocolError("AUTH from a client whose CONNECT had no Authentication Method")  # [MQTT-4.12.0-7]
        turn = authentication.turn(now)
        if self.host_limits is not None and turn is not None and turn.waits:
            self._wait_for_turn(connection, authentication, packet, turn, now)
        else:
            self._reauthenticate(connection, session, packet, turn, now)

    def _reauthenticate(self, connection: Peer, session: Session, packet: Auth, turn: Turn | None, now: int) -> None:
        authentication = connection.authentication
        assert authentication is not None  # it has sent AUTH
        try:
            answer = authentication.go_on(packet, turn, now)
        except MQTTError as error:
            if not authentication.delay or connection.gate.ended:
                raise
            refuse_later(self._sessions.wheel, connection, authentication.delay, error, now)
            return
        session.reply(authentication.reply(answer, connection.maximum_packet_size))


def _owner(connection: Peer, identity: Identity | None) -> Owner:
    """Whom the session belongs to."""
    user, roles = user_and_roles(identity)
    return Owner(user, roles, connection.socket.host(), connection.listener)
