"""Whether a client needs authentication, and by what: SCRAM, or the chain of authenticators."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.auth.authenticators.authenticator import Login
from broker.auth.authenticators.chain import NAMELESS, Chain, Outcome
from broker.auth.authenticators.guard import Guard
from broker.auth.authenticators.turn import Turn
from broker.auth.certificates import common_name, identity_of
from broker.auth.decoy_secret import decoy_secret
from broker.auth.exchange import Authentication
from broker.auth.identity import Identity
from broker.auth.method import Method
from broker.runtime.origin import certificate_at_proxy
from broker.runtime.socket import Socket
from config.models import Config
from protocol import reason_codes
from protocol.connect import Connect
from protocol.errors import MQTTError

if TYPE_CHECKING:
    from broker.auth.scram import Scram

SCRAM: Final = "scram"
"""The source of the users of SCRAM-SHA-256."""


class Access:
    """The configured rules of authentication."""

    def __init__(self, config: Config, guard: Guard, chain: Chain | None = None) -> None:
        """`guard` counts failures; `chain`: None = user names and passwords are not looked at."""
        self._guard = guard
        self._chain = chain
        self._scram: Scram | None = None
        """None until there are users of SCRAM. It stays the same: clients may be about to log in, or do so again."""
        self._methods: dict[str, Method] = {}
        self._scram_roles: dict[str, frozenset[str]] = {}
        self._anonymous: bool = False
        self._anonymous_on: dict[str, bool] = {}
        """What listeners say about it themselves."""
        self._templates: dict[str, str] = {}
        """What makes a user name of a certificate that the broker has verified, by listener."""
        self._proxy_templates: dict[str, str] = {}
        """The same for those that a proxy has verified."""
        self._names_may_be_tokens: bool = False
        """Whether clients send tokens as user names."""
        self._certified: set[str] = set()
        """Listeners whose clients have to show a certificate."""
        self.ends_foreign_sessions = True
        """Whether a session ends when another user comes with its client id; else that user is refused."""
        self.use(config)

    def use(self, config: Config) -> None:
        """Follow this configuration for new connections; the chain stays as it is."""
        users = config.authentication.scram
        self._methods = {}
        if self._scram is not None:
            self._scram.use(users)
        elif users:
            from broker.auth.scram import Scram  # slow to import, and few brokers need it

            self._scram = Scram(users, decoy_secret(config.persistence.directory))
        if self._scram is not None and users:
            self._methods[self._scram.name] = self._scram
        self._scram_roles = {user.username: frozenset(user.roles) for user in users}
        anonymous = config.allow_anonymous
        self._anonymous = not config.authentication.has_users if anonymous is None else anonymous
        self._anonymous_on = {
            each.name: each.allow_anonymous for each in config.listeners if each.allow_anonymous is not None
        }
        self.ends_foreign_sessions = config.authorization.foreign_sessions == "end"
        self._names_may_be_tokens = config.authentication.names_may_be_tokens
        self._templates = {}
        self._proxy_templates = {}
        for listener in config.listeners:
            tls, proxy = listener.tls, listener.proxy_protocol
            if tls is not None and tls.username is not None:
                self._templates[listener.name] = tls.username
            if proxy is not None and proxy.username is not None:
                self._proxy_templates[listener.name] = proxy.username
        self._certified = {
            listener.name
            for listener in config.listeners
            if listener.tls is not None and listener.tls.require_client_certificate
        }

    def certified(self, connect: Connect, listener: str, socket: Socket) -> Identity | None:
        """Who a client is by its certificate; None if that says nothing. Raises MQTTError to refuse."""
        template = self._templates.get(listener)
        certificate = {} if template is None else socket.certificate()
        if not certificate:
            template = self._proxy_templates.get(listener)
            certificate = certificate_at_proxy(socket.origin)
        if template is None or not certificate:
            return None
        return identity_of(certificate, template, connect.username, self._names_may_be_tokens)

    def scram_identity(self, user: str) -> Identity:
        """A user that SCRAM has authenticated."""
        return Identity(user, self.roles_of(user), SCRAM)

    def roles_of(self, user: str) -> frozenset[str]:
        """The roles that the configuration gives a user."""
        return self._scram_roles.get(user, frozenset())

    def enhanced(self, name: str, connect: Connect, listener: str, host: str) -> Authentication:
        """Return the authentication by the method that the client asks for. Raises MQTTError to refuse."""
        method = self._methods.get(name)
        if method is None:  # [MQTT-4.12.0-1]
            raise MQTTError(reason_codes.BAD_AUTHENTICATION_METHOD, f"CONNECT asks for authentication by {name!r:.80}")
        return Authentication(method, connect, self._guard, Login("", None, connect.client_id, listener, host))

    def check(self, connect: Connect, listener: str, socket: Socket) -> bool:
        """Whether the chain has to be asked about a client without Authentication Method. Raises MQTTError to refuse.

        Who sends a user name or a password is asked about it, even where nobody would have to: the name may be used by
        rules, and a wrong password is a mistake that its owner wants to see. About others only those are asked who can
        tell by something else.
        """
        chain = self._chain
        if chain is not None and (connect.username or connect.password is not None or chain.asked_about_nameless):
            return True
        if not self._accepts_anonymous(listener, socket):
            raise MQTTError(reason_codes.NOT_AUTHORIZED, NAMELESS)
        return False

    def ask(self, connect: Connect, listener: str, socket: Socket, done: Callable[[Outcome], None]) -> Turn:
        """Ask the chain about a client for which `check` is true; `done` is called later. Returns the login's turn."""
        assert self._chain is not None  # else `check` is False
        name = common_name(socket.certificate() or certificate_at_proxy(socket.origin))
        username, may_be_token = connect.username or "", self._names_may_be_tokens
        login = Login(username, connect.password, connect.client_id, listener, socket.host(), name, may_be_token)
        return self._chain.begin(login, self._accepts_anonymous(listener, socket), done)

    def _accepts_anonymous(self, listener: str, socket: Socket) -> bool:
        """Whether a client that nobody knows is let in: by configuration, or by the certificate it has shown.

        A listener that says no itself asks for a password beside it. A client has shown none if it has connected
        before a reload asked for one.
        """
        own = self._anonymous_on.get(listener)
        if own or (own is None and self._anonymous):
            return True
        if own is False and self._chain is not None:
            return False
        return listener in self._certified and bool(socket.certificate())
