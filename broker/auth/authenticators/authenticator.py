"""The interface of authenticators: what they are asked, and what they may answer."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from broker.auth.identity import Identity


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


class No(Enum):
    """Answers that are not an identity."""

    DENIED = "denied"
    """The client must not be let in; nobody else is asked."""
    NOT_MINE = "not mine"
    """The authenticator knows nothing of this user: the next one is asked. At the end of the chain it means denied."""


Answer = Identity | No


class Busy(Exception):  # noqa: N818 - it is a state, not a mistake
    """Too many clients wait for an answer; this one has to try again later."""


class Authenticator(Protocol):
    """Decides about logins. Whatever it raises, except Busy, counts as a failure: the client is not let in."""

    name: str
    """For the log."""

    async def authenticate(self, login: Login) -> Answer:
        """Return who it is, `No.DENIED` or `No.NOT_MINE`. Raises Busy."""
        ...
