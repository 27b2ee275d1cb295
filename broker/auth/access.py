"""Whether a CONNECT needs authentication, and by which method it gets it."""

from broker.auth.exchange import Authentication
from broker.auth.method import Method
from config.models import Config
from protocol import properties as props
from protocol import reason_codes
from protocol.connect import Connect
from protocol.errors import MQTTError


class Access:
    """What the configuration says of authentication."""

    def __init__(self, config: Config) -> None:
        users = config.authentication.scram
        self._methods: dict[str, Method] = {}
        if users:
            from broker.auth.scram import NAME, Scram  # takes a while to load, and few brokers need it

            self._methods[NAME] = Scram(users)
        anonymous = config.allow_anonymous
        self._anonymous = not users if anonymous is None else anonymous
        self._certified = {
            listener.name
            for listener in config.listeners
            if listener.tls is not None and listener.tls.require_client_certificate
        }

    def ask(self, connect: Connect, listener: str) -> Authentication | None:
        """Return what the client has to go through; None if it may come in as it is. Raises MQTTError to refuse it."""
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
