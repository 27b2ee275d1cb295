"""The sections `authentication` and `authorization`: who may come in, and what they may do."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from config.credentials import check_different, check_key, check_salt, check_username
from config.value_types import FiniteCount, Model, TopicFilter

LEAST_ITERATIONS: Final = 4096
"""Fewer make guessing too cheap (RFC 7677, section 4)."""

MOST_ITERATIONS: Final = 10_000_000
"""More than clients will compute."""

Key = Annotated[SecretStr, BeforeValidator(check_key)]
"""A key of a user, in base64: whoever knows both can pass for the server, or try passwords without asking it."""


class ScramUser(Model):
    """One user of SCRAM-SHA-256 as `sluice user scram` writes it: not the password, but what can check it."""

    username: Annotated[str, BeforeValidator(check_username)]
    salt: Annotated[str, BeforeValidator(check_salt)]
    """Base64; clients are told."""
    iterations: FiniteCount = Field(ge=LEAST_ITERATIONS, le=MOST_ITERATIONS)
    """How often the password is hashed; clients are told, and do it."""
    stored_key: Key
    server_key: Key


class Authentication(Model):
    """How clients show who they are."""

    scram: Annotated[list[ScramUser], AfterValidator(check_different)] = Field(default_factory=list)
    """The users of SCRAM-SHA-256, which MQTT 5 clients can authenticate by; empty = it is not offered."""


class Authorization(Model):
    """What clients may publish and subscribe to."""

    deny_publish: list[TopicFilter] = Field(default_factory=list)
    """Topics that nobody may publish to."""
    deny_subscribe: list[TopicFilter] = Field(default_factory=list)
    """Topics that nobody receives: neither by a filter that they cover nor by a wider one."""
    bridge_state: bool = True
    """Whether a client may tell its own state under $SYS/broker/connection, as bridges do."""
    refused_subscribe: Literal["unspecified", "not_authorized"] = "unspecified"
    """What SUBACK says to MQTT 5 clients of a denied filter: 0x80, as to 3.1.1 clients, or 0x87."""
    refused_publish: Literal["acknowledge", "close"] = "acknowledge"
    """What 3.1.1, which has no word for it, makes of a refused PUBLISH [MQTT-3.3.5-2]."""
