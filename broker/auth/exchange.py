"""Where one connection's authentication stands: at CONNECT, and whenever the client authenticates again."""

from typing import TYPE_CHECKING, Final

from broker.auth.method import Answer, Exchange, Method
from broker.connection.replies import fits
from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connect import Connect
from protocol.errors import MQTTError, PacketTooLarge, ProtocolError
from protocol.properties import Properties
from session.session import Session

if TYPE_CHECKING:
    from broker.connection.connection import Connection


_NOTHING: Final[Properties] = {}


class Authentication:
    """The exchange that is under way, if one is, and whom the last has shown the client to be."""

    def __init__(self, method: Method, connect: Connect) -> None:
        self.connect: Connect | None = connect
        """The CONNECT that waits for the first exchange; None when that is over."""
        self.user: str | None = None
        self._method = method
        self._exchange: Exchange | None = None

    def begin(self) -> Answer:
        """Take what CONNECT says. Like `go_on`, raises MQTTError if the client cannot stay connected."""
        assert self.connect is not None  # it has just come
        return self._step(self._method.begin(), self.connect.properties or _NOTHING)

    def go_on(self, packet: Auth) -> Answer:
        """Take what an AUTH says, be it a step of the exchange or the beginning of another."""
        exchange = self._exchange
        if packet.reason_code == reason_codes.RE_AUTHENTICATE and exchange is None:
            exchange = self._method.begin()
        elif packet.reason_code != reason_codes.CONTINUE_AUTHENTICATION or exchange is None:  # [MQTT-4.12.0-3]
            when = "when no exchange is" if exchange is None else "while an exchange is"
            raise ProtocolError(f"AUTH with reason code 0x{packet.reason_code:02X} {when} under way")
        properties = packet.properties or _NOTHING
        name = properties.get(props.AUTHENTICATION_METHOD)
        if name != self._method.name:  # [MQTT-4.12.0-5] [MQTT-4.12.1-1]
            raise MQTTError(
                reason_codes.BAD_AUTHENTICATION_METHOD, f"AUTH by {name!r:.80} after CONNECT by {self._method.name!r}"
            )
        return self._step(exchange, properties)

    def reply(self, answer: Answer, limit: int) -> bytes:
        """The AUTH that carries an answer [MQTT-4.12.0-2]. Raises MQTTError if it is more than the client takes."""
        code = reason_codes.CONTINUE_AUTHENTICATION if answer.user is None else reason_codes.SUCCESS
        packet = Auth(code, self.properties(answer)).encode(5)
        if not fits(packet, limit):  # [MQTT-3.1.2-24]
            raise PacketTooLarge(f"an AUTH of {len(packet)} bytes to a client that takes {limit} at most")
        return packet

    def properties(self, answer: Answer) -> Properties:
        """The properties that carry an answer, in CONNACK too [MQTT-4.12.0-5]."""
        return {props.AUTHENTICATION_METHOD: self._method.name, props.AUTHENTICATION_DATA: answer.data}

    def _step(self, exchange: Exchange, properties: Properties) -> Answer:
        data = properties.get(props.AUTHENTICATION_DATA, b"")
        assert isinstance(data, bytes)  # the codec's type for this property
        answer = exchange.step(data)
        if answer.user is None:
            self._exchange = exchange
            return answer
        if self.user is not None and answer.user != self.user:
            # What the session may do, it may do as the user who opened it (section 4.12.1 leaves this to servers).
            raise MQTTError(reason_codes.NOT_AUTHORIZED, f"{self.user!r} has authenticated again as {answer.user!r}")
        self._exchange = None
        self.user = answer.user
        return answer


def reauthenticate(connection: "Connection", session: Session, packet: Auth) -> None:
    """Take a step and answer it. Raises MQTTError if the connection must be closed [MQTT-4.12.1-2]."""
    authentication = connection.authentication
    if authentication is None:
        raise ProtocolError("AUTH from a client whose CONNECT had no Authentication Method")  # [MQTT-4.12.0-7]
    answer = authentication.go_on(packet)
    session.outbound.outbox.add_control(authentication.reply(answer, connection.maximum_packet_size))
