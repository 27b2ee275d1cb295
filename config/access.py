"""The sections `authentication` and `authorization`: which clients may connect, and what they may do."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from config.credentials import check_different, check_key, check_salt, check_username
from config.http import Http
from config.plugins import Plugin, check_names
from config.postgres import Postgres
from config.rule import Rule
from config.tokens import Jwt
from config.value_types import Count, FiniteCount, FiniteDuration, Model, Name, TopicFilter, check_path

LEAST_ITERATIONS: Final = 4096
"""Fewer make guessing too cheap (RFC 7677, section 4)."""

MOST_ITERATIONS: Final = 10_000_000
"""More takes clients too long to compute."""

Key = Annotated[SecretStr, BeforeValidator(check_key)]
"""A key of a user, in base64. Both together are secret: they allow to impersonate the server and to test passwords."""


class ScramUser(Model):
    """One user of SCRAM-SHA-256 as `sluice user scram` writes it: what verifies the password, not the password."""

    username: Annotated[str, BeforeValidator(check_username)]
    salt: Annotated[str, BeforeValidator(check_salt)]
    """Base64; sent to clients."""
    iterations: FiniteCount = Field(ge=LEAST_ITERATIONS, le=MOST_ITERATIONS)
    """How often the client hashes the password; sent to clients."""
    stored_key: Key
    server_key: Key
    roles: list[Name] = Field(default_factory=list)
    """Roles of the user, for rules."""


class FailedLogins(Model):
    """How many failed logins by user name and password there may be before further ones are refused."""

    per_address: Count = 30
    """From one IPv4 address or IPv6 network (/64)."""
    per_user: Count = 10
    """Of one user name."""
    period: FiniteDuration = Field(default=60.0, ge=1)
    """Seconds without a failure after which they are forgotten."""


class Authentication(Model):
    """How clients authenticate."""

    password_file: Annotated[Path | None, BeforeValidator(check_path)] = None
    """The users who log in by user name and password, with hashes of the passwords; None = there are none."""
    jwt: Jwt | None = None
    """Clients that log in with a JSON Web Token; None = there are none."""
    postgres: Postgres | None = None
    """Users in a PostgreSQL database, with hashes of their passwords; None = there are none."""
    http: Http | None = None
    """A service that decides about logins; None = there is none."""
    plugins: Annotated[list[Plugin], AfterValidator(check_names)] = Field(default_factory=list)
    """Authenticators of other packages, asked after all others, in this order."""
    scram: Annotated[list[ScramUser], AfterValidator(check_different)] = Field(default_factory=list)
    """The users of SCRAM-SHA-256, a method for MQTT 5 clients; empty = the method is not offered."""
    failed_logins: FailedLogins = Field(default_factory=FailedLogins)

    @property
    def has_users(self) -> bool:
        """Whether there is anything that a client could authenticate with, besides a certificate."""
        return bool(self.scram) or self.has_chain

    @property
    def has_chain(self) -> bool:
        """Whether anything decides about user names and passwords."""
        return self.password_file is not None or self.jwt is not None or self.gives_limits

    @property
    def names_may_be_tokens(self) -> bool:
        """Whether clients send tokens as user names."""
        return self.jwt is not None and self.jwt.sent_as == "username"

    @property
    def gives_limits(self) -> bool:
        """Whether a user may have limits that are not in the configuration."""
        return self.postgres is not None or self.http is not None or bool(self.plugins)


class Authorization(Model):
    """What clients may publish and subscribe to."""

    rules: list[Rule] = Field(default_factory=list)
    """Who may do what: the first rule that matches decides."""
    rules_file: Annotated[Path | None, BeforeValidator(check_path)] = None
    """More rules, after those in `rules`: a YAML file with a list of them; None = none."""
    acl_file: Annotated[Path | None, BeforeValidator(check_path)] = None
    """An ACL file of Mosquitto, after all rules; None = none."""
    plugins: Annotated[list[Plugin], AfterValidator(check_names)] = Field(default_factory=list)
    """Authorizers of other packages, which give rules after all others, in this order."""
    default: Literal["allow", "deny"] | None = None
    """What applies where no rule matches. None: deny if there are rules and users, or an ACL file."""
    wide_subscriptions: Literal["narrow", "refuse"] = "narrow"
    """Whether a subscription to more than its client may read is accepted, and delivers the rest, or is refused."""
    foreign_sessions: Literal["end", "refuse"] = "end"
    """When a client comes with the client id of another user's session: that session ends, or the client is refused."""
    deny_publish: list[TopicFilter] = Field(default_factory=list)
    """Topics that no client may publish to."""
    deny_subscribe: list[TopicFilter] = Field(default_factory=list)
    """Topics that no client receives, whichever topic filter it subscribes to."""
    bridge_state: bool = True
    """Whether a client may publish its own state under $SYS/broker/connection, as bridges do."""
    refused_subscribe: Literal["unspecified", "not_authorized"] = "unspecified"
    """The reason code of a denied filter in SUBACK, in MQTT 5: 0x80, as in 3.1.1, or 0x87."""
    refused_publish: Literal["acknowledge", "close"] = "acknowledge"
    """What happens to a denied PUBLISH in 3.1.1, which has no reason code for it [MQTT-3.3.5-2]."""

    @property
    def has_rules(self) -> bool:
        """Whether what a client may do depends on who it is."""
        own = self.rules_file is not None or self.acl_file is not None
        return own or bool(self.rules) or bool(self.plugins) or self.default == "deny"
