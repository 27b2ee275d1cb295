"""Whether a CONNECT needs authentication, and which method does it."""

from broker.auth.exchange import Authentication
from broker.auth.method import Method
from config.models import Config
from protocol import properties as props
from protocol import reason_codes
from protocol.connect import Connect
from protocol.errors import MQTTError


class Authenticator:
    """The configured rules of authentication."""

    def __init__(self, config: Config) -> None:
        users = config.authentication.scram
        self._methods: dict[str, Method] = {}
        if users:
            from broker.auth.scram import NAME, Scram  # slow to import, and few brokers need it

            self._methods[NAME] = Scram(users)
        anonymous = config.allow_anonymous
        self._anonymous = not users if anonymous is None else anonymous
        self._certified = {
            listener.name
            for listener in config.listeners
            if listener.tls is not None and listener.tls.require_client_certificate
        }

    def authentication(self, connect: Connect, listener: str) -> Authentication | None:
        """Return the authentication that the client needs; None if it needs none. Raises MQTTError to refuse it."""
        name = (connect.properties or {}).get(props.AUTHENTICATION_METHOD)
        if name is not None:
            method = self._methods.get(str(name))
            if method is None:  # [MQTT-4.12.0-1]
                raise MQTTError(
                    reason_codes.BAD_AUTHENTICATION_METHOD, f"CONNECT asks for authentication by {name!r:.80}"
                )
            return Authentication(method, connect)
        if not self._anonymous and listener not in self._certified:
            raise MQTTError(reason_codes.NOT_AUTHORIZED, "CONNECT without authentication")
        return None
