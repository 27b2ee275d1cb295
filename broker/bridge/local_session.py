"""The session of a bridge here: its user, its subscriptions, and what CONNACK says of the remote broker."""

from collections.abc import Callable
from random import randrange
from typing import Final, final

from broker.auth.identity import Identity, user_and_roles
from broker.auth.permissions import Who
from broker.bridge.outgoing import Outgoing
from broker.bridge.topics import Topics
from broker.broker import Broker
from broker.clients import NEVER_EXPIRES, Client
from broker.connection.peer import Peer
from broker.routing.via import broker_id
from broker.routing.waiting import rights
from broker.storage.owner import Owner
from config.bridge import Bridge as Settings
from protocol import properties as props
from protocol.connack import Connack
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.limits import PACKET_IDS
from session.permitted import check_waiting

_SOURCE: Final = "bridges"
"""What has said who a bridge is: the configuration key."""


@final
class LocalSession:
    """The session of one bridge. It is there while the bridge is, unless `clean_start` says no."""

    def __init__(self, broker: Broker, settings: Settings) -> None:
        self._broker = broker
        self._settings = settings
        self._topics = Topics([], 0)
        self.client: Client | None = None
        """None: there is no session now."""

    def begin(self, settings: Settings, topics: Topics, now: int) -> None:
        """Begin it, or go on with the one of the journal or of older settings; subscribe to what goes out."""
        broker = self._broker
        self._settings = settings
        name = settings.local_id
        client = broker.clients.get(name)
        if client is None:
            client = broker.sessions.new(name, now)
            # The remote broker may have kept ids of QoS 2 from a former session: it would take new messages for old.
            client.session.sender.window.last_id = randrange(PACKET_IDS)  # noqa: S311 - no secret
        self.client = client
        client.identity = self._identity(settings)
        client.owned = True
        client.expires_at = 0
        client.expiry_interval = 0 if settings.clean_start else NEVER_EXPIRES
        client.session.listener = name
        client.session.version = 5 if settings.proto_ver == "5" else 4
        client.note_flow()
        broker.quotas.renew(client)
        self._permit(client)
        if broker.sessions.durable and client.expiry_interval and client.kept is None:
            self._keep(client)
        self._topics = topics
        self.renew(now)

    def renew(self, now: int) -> None:
        """Follow its topics, rules and quotas, which may be others: for what comes from now on, and for what waits."""
        client = self.client
        if client is None or not self._broker.clients.knows(client):
            return
        self.subscribe(now)
        permits = rights(client.session, client.permissions, self._broker.topic_rules)
        check_waiting(client.session.outbound, Bridged(self._topics, permits).holds)

    def _keep(self, client: Client) -> None:
        """FC-27: write it to the journal; it has no connection."""
        self._broker.sessions.keep(client, client.session.version, self._owner(client), None)
        if client.kept is not None:
            client.kept.detached(client.expiry_interval, False)

    def _identity(self, settings: Settings) -> Identity | None:
        user = settings.user
        return None if user is None else Identity(user, self._broker.access.roles_of(user), _SOURCE)

    def _owner(self, client: Client) -> Owner:
        user, roles = user_and_roles(client.identity)
        return Owner(user, roles, "", self._settings.local_id)

    def _permit(self, client: Client) -> None:
        """Give it the rights of its user, if there are rules."""
        authorizer = self._broker.authorizer
        if authorizer is None:
            return
        user, roles = user_and_roles(client.identity)
        name = self._settings.local_id
        client.permissions = authorizer.permissions(Who(user, roles, name, "", name))
        authorizer.attach(client.session.outbound, client.permissions, bool(client.session.subscriptions))

    def subscribe(self, now: int) -> None:
        """Subscribe to what goes out, and to nothing else. A subscription that stays is no new one.

        Rules and quotas may have refused some before, and permit them now.
        """
        client, settings = self.client, self._settings
        assert client is not None  # it has begun
        wanted = {topic.local_filter: topic.qos for topic in settings.topics if topic.goes_out}
        held = client.session.subscriptions or {}
        for topic_filter in [each for each in held if each not in wanted]:
            self._broker.subscribing.end(client, topic_filter)
        publishes = any(topic.comes_in for topic in settings.topics)  # else No Local would only cost time
        fresh = [
            Subscription(topic_filter, qos, no_local=publishes, retain_as_published=True, retain_handling=1)
            for topic_filter, qos in wanted.items()
            if topic_filter not in held or (held[topic_filter].qos, held[topic_filter].no_local) != (qos, publishes)
        ]
        codes = self._broker.subscribing.add(client, fresh, now)
        refused = [each.topic_filter for each, code in zip(fresh, codes, strict=True) if code > 2]
        if refused:
            self._broker.events.log.warning(
                "bridge_not_permitted",
                bridge=settings.name,
                filters=", ".join(refused),
                detail=f"rules, quotas or a full disk refuse them to user {settings.user!r}: they do not go out",
            )

    def attach(self, connection: Peer, version: int, connack: Connack, outgoing: Outgoing, now: int) -> None:
        """Run it on a connection that the remote broker has accepted. Raises MQTTError to close."""
        client = self.client
        assert client is not None  # it has begun
        broker, session = self._broker, client.session
        told = connack.properties or {}
        connection.client = client
        connection.maximum_packet_size = props.integer(told, props.MAXIMUM_PACKET_SIZE)
        broker.clients.note_broker(client, broker_id(told))
        client.attach(connection, client.identity, client.expiry_interval, False)
        rights_changed = client.rights_changed
        broker.handshake.attach(connection, client, client.permissions)
        broker.clients.note_bridge()
        if rights_changed:
            self.renew(now)  # what waits has been looked at by rights only
        if broker.sessions.durable:
            broker.sessions.keep(client, version, self._owner(client), None)
        if not connack.session_present:
            commit = session.inbound.begin_anew()
            if commit:
                connection.socket.hold_until(commit)
        connection.session = session  # needed by `arm`, which `connect` may call
        session.connect(
            connection,
            version,
            props.integer(told, props.RECEIVE_MAXIMUM),
            connection.maximum_packet_size,
            now,  # without topic aliases: they would have each message encoded anew
            rewriter=outgoing,
            maximum_qos=int(str(told.get(props.MAXIMUM_QOS, 2))),
        )
        connection.start(session, 0)

    def end(self, now: int) -> None:
        """End it, with all that waits. It has no connection."""
        client = self._broker.clients.get(self._settings.local_id)
        self.client = None
        if client is not None:
            self._broker.sessions.end(client, now)

    def is_there(self) -> bool:
        """Whether it has begun, and has not ended."""
        return self.client is not None and self._broker.clients.knows(self.client)

    def waiting(self) -> int:
        """How many deliveries wait or are not acknowledged."""
        if self.client is None:
            return 0
        gauges = self.client.session.gauges()
        return gauges.mqueue_len + gauges.mailbox_len + gauges.window_len

    def sent(self, now: int) -> int:
        """How many deliveries have been sent since it began."""
        return 0 if self.client is None else self.client.session.totals(now).sent


@final
class Bridged:
    """Tells what still goes over a bridge whose topics and rights may have changed."""

    def __init__(self, topics: Topics, permits: Callable[[Publish], bool]) -> None:
        self._topics = topics
        self._permits = permits

    def holds(self, publish: Publish) -> bool:
        """Whether a delivery that waits does."""
        return self._topics.outgoing.name(publish.topic) != b"" and self._permits(publish)
