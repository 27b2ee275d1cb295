"""Re-authentication (section 4.12.1): AUTH from a client that is connected. Other packets go on meanwhile."""

from typing import TYPE_CHECKING

from protocol.auth import Auth
from protocol.errors import ProtocolError
from session.session import Session

if TYPE_CHECKING:
    from broker.connection import Connection


def reauthenticate(connection: "Connection", session: Session, packet: Auth) -> None:
    """Take a step and answer it. Raises MQTTError if the connection must be closed [MQTT-4.12.1-2]."""
    authentication = connection.authentication
    if authentication is None:
        raise ProtocolError("AUTH from a client whose CONNECT had no Authentication Method")  # [MQTT-4.12.0-7]
    answer = authentication.go_on(packet)
    session.outbound.outbox.add_control(authentication.reply(answer, connection.maximum_packet_size))
