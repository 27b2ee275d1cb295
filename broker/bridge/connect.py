"""The CONNECT of a bridge: what it asks of the remote broker, and what it says of this one."""

from typing import Final

from broker.broker import Broker
from broker.settings import whole_seconds
from config.bridge import Bridge as Settings
from protocol import properties as props
from protocol.connect import Connect, Will
from protocol.properties import Properties

_OFFLINE: Final = b"0"


def connect_of(own: Settings, broker: Broker, node_name: str, password: bytes | None, private: bool) -> Connect:
    """The CONNECT; `private`: whether, with MQTT 3.1.1, the protocol level says that this is a bridge."""
    version = 5 if own.proto_ver == "5" else 4
    return Connect(
        own.client_id or f"{node_name}-{own.name}",
        own.clean_start,
        int(own.keepalive),
        own.username,
        password,
        _will(own),
        _properties(own, broker) if version == 5 else None,
        version,
        bridge=version == 4 and private,
    )


def _properties(own: Settings, broker: Broker) -> Properties:
    properties: Properties = {
        props.SESSION_EXPIRY_INTERVAL: 0 if own.clean_start else whole_seconds(own.session_expiry_interval),
        props.RECEIVE_MAXIMUM: broker.settings.limits.receive_maximum,
        props.USER_PROPERTY: broker.via.own,
    }
    if broker.settings.max_packet_size:
        properties[props.MAXIMUM_PACKET_SIZE] = broker.settings.max_packet_size
    if broker.capabilities.topic_alias_maximum:
        properties[props.TOPIC_ALIAS_MAXIMUM] = broker.capabilities.topic_alias_maximum
    return properties


def _will(own: Settings) -> Will | None:
    if own.state_topic is not None:
        return Will(own.state_topic.encode(), _OFFLINE, 1, own.outgoing_retain)
    if own.will is None:
        return None
    return Will(own.will.topic.encode(), own.will.payload.encode(), own.will.qos, own.will.retain)
