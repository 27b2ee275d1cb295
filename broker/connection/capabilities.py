"""The protocol features as configured: announced to MQTT 5 clients in CONNACK, enforced for all clients."""

import re
from typing import Final, final

from broker.routing.router import is_wildcard
from config.models import Config
from config.mqtt import CLIENT_ID, LARGEST_PACKET
from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.errors import MQTTError, PacketTooLarge
from protocol.primitives import MAXIMUM_UINT16
from protocol.properties import Properties
from protocol.replies import fits
from protocol.subscribe import Subscribe
from protocol.topics import split_share
from session.limits import PACKET_IDS

_NOT_PLAIN: Final = re.compile(r"[/+#%\x00-\x1f\x7f-\x9f]|^\$")
"""What is percent-encoded in a client id that becomes one level of a topic."""


@final
class Capabilities:
    """The configured features, and the checks against them."""

    def __init__(self, config: Config) -> None:
        mqtt = config.mqtt
        self.receive_maximum: int = config.session.receive_maximum
        self.max_packet_size: int = mqtt.max_packet_size
        self.topic_alias_maximum: int = mqtt.topic_alias_maximum
        self.maximum_qos: int = mqtt.maximum_qos
        self.retain_available: bool = mqtt.retain_available
        self.wildcards_available: bool = mqtt.wildcard_subscription_available
        self.identifiers_available: bool = mqtt.subscription_identifiers_available
        self.shared_available: bool = mqtt.shared_subscription_available
        self.server_keep_alive: int = int(mqtt.server_keep_alive or 0)
        """The longest keep-alive in seconds; 0 = no limit."""
        self.response_information: str = mqtt.response_information or ""
        self.check_payload_format: bool = mqtt.check_payload_format
        self.server_reference: str = mqtt.redirect_to or ""
        """The server to which all clients are redirected; empty = none."""
        permanent = mqtt.redirect == "permanent"
        self.redirection: int = reason_codes.SERVER_MOVED if permanent else reason_codes.USE_ANOTHER_SERVER

    def use(self, config: Config) -> None:
        """The configuration has changed, in nothing that CONNACK has told to clients that are connected."""
        mqtt = config.mqtt
        self.max_packet_size = mqtt.max_packet_size
        self.server_keep_alive = int(mqtt.server_keep_alive or 0)
        self.response_information = mqtt.response_information or ""
        self.check_payload_format = mqtt.check_payload_format
        self.server_reference = mqtt.redirect_to or ""
        permanent = mqtt.redirect == "permanent"
        self.redirection = reason_codes.SERVER_MOVED if permanent else reason_codes.USE_ANOTHER_SERVER

    # -- announced to clients

    def announce(self, connack: Properties, asked: Properties, client_id: str) -> None:
        """Add to CONNACK what differs from the standard's defaults, and what the CONNECT `asked` for."""
        if self.receive_maximum != PACKET_IDS:
            connack[props.RECEIVE_MAXIMUM] = self.receive_maximum  # FC-20
        if self.max_packet_size < LARGEST_PACKET:  # it says nothing else, and paho refuses a number that large
            connack[props.MAXIMUM_PACKET_SIZE] = self.max_packet_size
        if self.topic_alias_maximum:
            connack[props.TOPIC_ALIAS_MAXIMUM] = self.topic_alias_maximum  # [MQTT-3.3.2-9]
        if self.maximum_qos < 2:
            connack[props.MAXIMUM_QOS] = self.maximum_qos  # [MQTT-3.2.2-9]
        if not self.retain_available:
            connack[props.RETAIN_AVAILABLE] = 0
        if not self.wildcards_available:
            connack[props.WILDCARD_SUBSCRIPTION_AVAILABLE] = 0
        if not self.identifiers_available:
            connack[props.SUBSCRIPTION_IDENTIFIER_AVAILABLE] = 0
        if not self.shared_available:
            connack[props.SHARED_SUBSCRIPTION_AVAILABLE] = 0
        if self.response_information and asked.get(props.REQUEST_RESPONSE_INFORMATION) == 1:  # [MQTT-3.1.2-28]
            information = self.response_information.replace(CLIENT_ID, as_level(client_id))
            if len(information.encode()) <= MAXIMUM_UINT16:
                connack[props.RESPONSE_INFORMATION] = information

    def keep_alive(self, connect: Connect) -> int:
        """The keep-alive that applies, in seconds [MQTT-3.2.2-21, -22]: CONNACK of 3.1.1 cannot change the client's."""
        own = connect.keep_alive
        most = self.server_keep_alive
        return most if most and connect.version == 5 and (own == 0 or own > most) else own

    # -- enforced

    @property
    def selective(self) -> bool:
        """Whether even a PUBLISH without properties may be unsupported."""
        return self.maximum_qos < 2 or not self.retain_available

    def check_message(self, what: str, qos: int, retain: bool) -> None:
        """Raise MQTTError if the message, a PUBLISH or a will, is not supported."""
        if qos > self.maximum_qos:  # [MQTT-3.2.2-11, -12]
            raise MQTTError(
                reason_codes.QOS_NOT_SUPPORTED, f"{what} at QoS {qos}; the highest here is {self.maximum_qos}"
            )
        if retain and not self.retain_available:  # [MQTT-3.2.2-13, -14]
            raise MQTTError(reason_codes.RETAIN_NOT_SUPPORTED, f"{what} with RETAIN, which is switched off")

    def must_be_text(self, properties: Properties | None) -> bool:
        """Whether a payload with these properties has to be UTF-8 (section 3.3.2.3.2)."""
        if properties is None or not self.check_payload_format:
            return False
        return properties.get(props.PAYLOAD_FORMAT_INDICATOR) == 1

    def check_subscribe(self, packet: Subscribe) -> None:
        """Raise MQTTError if a SUBSCRIBE of MQTT 5 uses a feature that CONNACK has announced as not available."""
        if not self.identifiers_available and packet.properties and props.SUBSCRIPTION_IDENTIFIER in packet.properties:
            raise MQTTError(
                reason_codes.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
                "SUBSCRIBE with a Subscription Identifier, which is not available here",
            )
        for subscription in packet.subscriptions:
            code = self.lacks(subscription.topic_filter)
            if code:
                raise MQTTError(
                    code, f"SUBSCRIBE to {subscription.topic_filter!r:.100}, which asks for what is not available here"
                )

    def lacks(self, topic_filter: str) -> int:
        """The reason code for a feature that a filter needs and that is not available; 0 = none."""
        if self.wildcards_available and self.shared_available:
            return 0
        share, inner = split_share(topic_filter)
        if share and not self.shared_available:
            return reason_codes.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
        if is_wildcard(inner) and not self.wildcards_available:
            return reason_codes.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
        return 0


def as_level(client_id: str) -> str:
    """The client id as one topic level, percent-encoded where needed, so that different ids stay different."""
    return _NOT_PLAIN.sub(_percent_encode, client_id)


def _percent_encode(found: re.Match[str]) -> str:
    return "".join([f"%{byte:02X}" for byte in found.group().encode()])


def is_text(payload: bytes) -> bool:
    """Whether a payload is well-formed UTF-8."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def fit(connack: Connack, own_properties: Properties, maximum_packet_size: int) -> None:
    """Omit Response Information if CONNACK exceeds the client's Maximum Packet Size [MQTT-3.1.2-24]."""
    if not fits(connack.encode(5), maximum_packet_size):
        own_properties.pop(props.RESPONSE_INFORMATION, None)
        if not fits(connack.encode(5), maximum_packet_size):
            raise PacketTooLarge(f"CONNACK exceeds the client's Maximum Packet Size of {maximum_packet_size} bytes")
