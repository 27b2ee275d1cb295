"""Checks a CONNECT: before authentication rate, client id and number of connections, after it the will."""

from typing import final

from broker.clients import Clients
from broker.connection.capabilities import Capabilities, is_text
from broker.connection.connection_rate import ConnectionRate
from broker.connection.peer import Peer
from broker.routing.topic_rules import TopicRules
from broker.settings import Settings
from config.bridge import CLIENT_ID
from config.cluster import CELL
from protocol import reason_codes
from protocol.connect import MQTT_3_1, REFUSED_3_1_1, Connect, Will
from protocol.errors import MQTTError, TopicNameInvalid, UnsupportedProtocolVersion
from protocol.replies import Redirected


@final
class Admission:
    """Refuses CONNECTs by raising MQTTError."""

    def __init__(
        self, settings: Settings, capabilities: Capabilities, topic_rules: TopicRules, clients: Clients
    ) -> None:
        self._settings = settings
        self._capabilities = capabilities
        self._topic_rules = topic_rules
        self._clients = clients
        self._rate: ConnectionRate | None = None
        self.limit_rate()

    def limit_rate(self) -> None:
        """The configured rate has changed."""
        rate = self._settings.max_connection_rate
        self._rate = ConnectionRate(rate) if rate else None

    def check_rate(self, connection: Peer, now: int) -> None:
        """Raise MQTTError if clients connect from this host faster than `max_connection_rate` allows."""
        if self._rate is not None and not self._rate.admit(connection.socket.host(), now):
            raise MQTTError(reason_codes.CONNECTION_RATE_EXCEEDED, "too many connections a second from one IP address")

    def check(self, packet: Connect) -> None:
        """Raise MQTTError if this CONNECT is refused."""
        settings = self._settings
        capabilities = self._capabilities
        if capabilities.server_reference:
            raise Redirected(capabilities.redirection, capabilities.server_reference)
        if packet.mqtt31 and not settings.mqtt31:
            message = "MQTT 3.1, which mqtt.mqtt31 does not accept"
            raise UnsupportedProtocolVersion(message, MQTT_3_1, REFUSED_3_1_1)
        client_id = packet.client_id
        if not client_id and packet.mqtt31:
            raise MQTTError(reason_codes.CLIENT_IDENTIFIER_NOT_VALID, "CONNECT of MQTT 3.1 without client id")
        if not client_id and packet.version == 4 and not packet.clean_start:  # 3.1.1: [MQTT-3.1.3-8]
            raise MQTTError(reason_codes.CLIENT_IDENTIFIER_NOT_VALID, "CONNECT without client id and clean session")
        if client_id.startswith(CLIENT_ID):
            raise MQTTError(
                reason_codes.CLIENT_IDENTIFIER_NOT_VALID,
                f"client id {client_id!r:.100}: those that begin with {CLIENT_ID} are of this broker's own bridges",
            )
        if client_id.startswith(CELL):
            raise MQTTError(
                reason_codes.CLIENT_IDENTIFIER_NOT_VALID,
                f"client id {client_id!r:.100}: those that begin with {CELL} are of this broker's own cells",
            )
        if len(client_id.encode()) > settings.max_clientid_len:
            raise MQTTError(
                reason_codes.CLIENT_IDENTIFIER_NOT_VALID,
                f"client id of {len(client_id.encode())} bytes; at most {settings.max_clientid_len} are accepted",
            )
        if settings.max_connections and self._clients.online >= settings.max_connections:
            known = self._clients.get(client_id)
            if known is None or known.connection is None:  # a take-over adds no connection
                raise MQTTError(
                    reason_codes.QUOTA_EXCEEDED,
                    f"{settings.max_connections} clients are connected, as many as mqtt.max_connections allows",
                )

    def check_will(self, packet: Connect) -> None:
        """Check the will like a PUBLISH, now: when it is published, its client is no longer connected.

        Raises MQTTError; only clients that are let in may know what is denied.
        """
        will = packet.will
        if will is None:
            return
        topic = will.topic
        most = self._settings.max_topic_levels
        if topic.count(b"/") >= most:
            raise TopicNameInvalid(f"will topic of {topic.count(b'/') + 1} levels; at most {most} are accepted")
        self._capabilities.check_message("will", will.qos, will.retain)
        rules = self._topic_rules
        message = (packet.client_id, topic, will.payload, will.retain)
        if not (rules.may_publish(topic) or rules.may_publish_state(*message)):
            raise will_refused(will, rules.state_mistake(*message))
        if self._capabilities.must_be_text(will.properties) and not is_text(will.payload):
            raise MQTTError(
                reason_codes.PAYLOAD_FORMAT_INVALID,
                "will with a payload that is not UTF-8, though its Payload Format Indicator says so",
            )


def will_refused(will: Will, why: str = "") -> MQTTError:
    """The refusal of a client that may not publish its will; `why`: what more is known, after a colon."""
    return MQTTError(reason_codes.NOT_AUTHORIZED, f"will topic {will.topic.decode()!r:.100} is not permitted{why}")
