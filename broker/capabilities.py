"""What this broker offers to MQTT 5 clients and what it does not: the part of CONNACK that is the same for all."""

from typing import final

from config.models import Config
from protocol import properties as props
from protocol.properties import Properties
from session.limits import PACKET_IDS


@final
class Capabilities:
    """The features of the protocol as they are configured."""

    def __init__(self, config: Config) -> None:
        mqtt = config.mqtt
        self.receive_maximum: int = config.session.receive_maximum
        self.max_packet_size: int = mqtt.max_packet_size
        self.topic_alias_maximum: int = mqtt.topic_alias_maximum

    def tell(self, connack: Properties) -> None:
        """Add what differs from the standard's defaults."""
        if self.receive_maximum != PACKET_IDS:
            connack[props.RECEIVE_MAXIMUM] = self.receive_maximum  # FC-20
        connack[props.MAXIMUM_PACKET_SIZE] = self.max_packet_size
        if self.topic_alias_maximum:
            connack[props.TOPIC_ALIAS_MAXIMUM] = self.topic_alias_maximum  # [MQTT-3.3.2-9]
