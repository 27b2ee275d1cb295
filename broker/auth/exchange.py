"""The authentication of one connection: at CONNECT, and when the client re-authenticates."""

from dataclasses import replace
from typing import Final

from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.guard import Guard
from broker.auth.authenticators.turn import Turn
from broker.auth.method import Answer, Exchange, Method
from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connect import Connect
from protocol.errors import MQTTError, PacketTooLarge, ProtocolError
from protocol.properties import Properties
from protocol.replies import fits

_NOTHING: Final[Properties] = {}


class Authentication:
    """The current exchange, if there is one, and the user that the last one has authenticated."""

    def __init__(self, method: Method, connect: Connect, guard: Guard, client: Login) -> None:
        """`guard` counts failures; `client`: what is known of the client beside its name."""
        self.connect: Connect | None = connect
        """The CONNECT that waits for the first exchange; None after that."""
        self.user: str | None = None
        self.delay = 0
        """Microseconds by which the refusal that was raised is delayed."""
        self._method = method
        self._guard = guard
        self._client = client
        self._exchange: Exchange | None = None

    def begin(self, now: int) -> Answer:
        """Process the data of CONNECT. Like `go_on`, raises MQTTError if the client must be disconnected."""
        assert self.connect is not None  # set at creation
        return self._step(self._method.begin(), self.connect.properties or _NOTHING, now)

    def turn(self, now: int) -> Turn | None:
        """The turn of the next step; None if that is the first of an exchange, which tries no password."""
        return None if self._exchange is None else self._guard.enter(self._login(self._exchange), now)

    def go_on(self, packet: Auth, turn: Turn | None, now: int) -> Answer:
        """Process an AUTH: a step of the current exchange, or the start of a new one. `turn`: that of `turn`."""
        if turn is None:
            return self._go_on(packet, now)
        try:
            if turn.waits:
                raise MQTTError(reason_codes.SERVER_BUSY, "other logins of this user are being decided about")
            if turn.refusal is not None:
                raise turn.refusal  # unread: the answer does not tell whether the password was right
            return self._go_on(packet, now)
        finally:
            self.leave(turn, now)

    def leave(self, turn: Turn, now: int) -> None:
        """Nobody waits for this turn any longer."""
        self._guard.leave(turn, now)

    def _go_on(self, packet: Auth, now: int) -> Answer:
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
        return self._step(exchange, properties, now)

    def reply(self, answer: Answer, limit: int) -> bytes:
        """The AUTH that carries an answer [MQTT-4.12.0-2]. Raises MQTTError if it is larger than `limit`."""
        code = reason_codes.CONTINUE_AUTHENTICATION if answer.user is None else reason_codes.SUCCESS
        packet = Auth(code, self.properties(answer)).encode(5)
        if not fits(packet, limit):  # [MQTT-3.1.2-24]
            raise PacketTooLarge(f"an AUTH of {len(packet)} bytes to a client with a Maximum Packet Size of {limit}")
        return packet

    def properties(self, answer: Answer) -> Properties:
        """The properties that carry an answer in AUTH and CONNACK [MQTT-4.12.0-5]."""
        return {props.AUTHENTICATION_METHOD: self._method.name, props.AUTHENTICATION_DATA: answer.data}

    def _step(self, exchange: Exchange, properties: Properties, now: int) -> Answer:
        data = properties.get(props.AUTHENTICATION_DATA, b"")
        assert isinstance(data, bytes)  # the type that the codec decodes
        guard = self._guard
        try:
            answer = exchange.step(data)
        except MQTTError:
            self.delay = guard.failed(self._login(exchange), now)
            raise
        login = self._login(exchange)
        if self._exchange is None and (refusal := guard.refusal(login, now)):  # only now its user is known
            raise MQTTError(reason_codes.CONNECTION_RATE_EXCEEDED, refusal)
        if answer.user is None:
            self._exchange = exchange
            return answer
        if self.user is not None and answer.user != self.user:
            # The session belongs to the user who opened it (section 4.12.1 leaves this to servers).
            raise MQTTError(reason_codes.NOT_AUTHORIZED, f"{self.user!r} has authenticated again as {answer.user!r}")
        guard.succeeded(login, answer.user)
        self._exchange = None
        self.user = answer.user
        return answer

    def _login(self, exchange: Exchange) -> Login:
        return replace(self._client, username=exchange.claimed)
