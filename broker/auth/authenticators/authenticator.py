"""The interface of authenticators: what they are asked, and what they may answer."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from broker.auth.claimed_name import shown
from broker.auth.identity import Identity
from broker.runtime.network import network


@dataclass(frozen=True, slots=True)
class Login:
    """What a client has sent to be let in, and from where."""

    username: str
    """Empty if CONNECT has none."""
    password: bytes | None = field(repr=False)
    """None if CONNECT has none. `repr` leaves it out, so that no log has it."""
    client_id: str = ""
    """As the client has sent it: empty if the broker is to assign one."""
    listener: str = ""
    host: str = ""
    """The IP address of the client."""
    common_name: str = ""
    """The common name of its certificate, if it has a verified one."""
    name_may_be_token: bool = False
    """Whether clients send tokens as user names."""

    @property
    def shown(self) -> str:
        """The user name as it may be written."""
        return shown(self.username, self.name_may_be_token)

    @property
    def network(self) -> bytes:
        """Its IPv4 address or IPv6 network (/64), as a key; empty if it has none."""
        return network(self.host)

    @property
    def is_nameless(self) -> bool:
        """Whether CONNECT has neither a user name nor a password: there is only what else is known of the client."""
        return not self.username and self.password is None

    @property
    def claimed(self) -> str:
        """Whom a password is tried for: the user name, without one the client id; empty without either."""
        if self.username or not self.client_id:
            return self.username
        return "\0" + self.client_id  # no user name has this character [MQTT-1.5.4-2]


class No(Enum):
    """Answers that are not an identity."""

    DENIED = "denied"
    """The client must not be let in; nobody else is asked."""
    NOT_MINE = "not mine"
    """The authenticator knows nothing of this user: the next one is asked. At the end of the chain it means denied."""


Answer = Identity | No


class Busy(Exception):  # noqa: N818 - it is a state, not a mistake
    """Too many clients wait for an answer; this one has to try again later."""


class Unavailable(Exception):  # noqa: N818 - it is a state, not a mistake
    """It cannot be told now who it is; the log has the reason already."""


class Authenticator(Protocol):
    """Decides about logins. Whatever it raises counts as a failure: the client is not let in."""

    name: str
    """For the log."""
    asked_about_nameless: bool
    """Whether it can decide about clients that send neither a user name nor a password, such as by their client ids."""

    async def authenticate(self, login: Login) -> Answer:
        """Return who it is, `No.DENIED` or `No.NOT_MINE`. Raises Busy and Unavailable."""
        ...


@runtime_checkable
class Hashing(Authenticator, Protocol):
    """Compares passwords with hashes, which takes time."""

    async def waste(self, login: Login) -> None:
        """Take the time of a wrong password, for a user name that it does not know. Raises Busy."""
        ...
