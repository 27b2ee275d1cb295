"""What a storm is told: where the broker is, and how strong the storm is to be."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Protocol, Self

from tests.support.process import Address

ANN = "ann"
"""A user whose quota counts messages."""
BOB = "bob"
"""A user whose quota counts bytes."""
EVE = "eve"
"""A user without a quota."""
VICTIMS = 20
"""Users whose names the attackers know."""
PASSWORD = "correct horse battery staple"  # of all users: their hash is computed once


def victim(number: int) -> str:
    """The name of one of those users."""
    return f"victim-{number}"


@dataclass(frozen=True)
class Plan:
    """Rates are a second."""

    tcp: Address
    tls: Address
    logins: int = 200
    """Wrong logins."""
    addresses: int = 20
    """Where these come from."""
    half_open: int = 10_000
    """Connections that do not get as far as CONNECT; half of them with TLS."""
    groups: int = 5_000
    """Shared subscriptions of one session."""
    messages: int = 100
    """Messages that are published for those who do not read."""

    def text(self) -> str:
        """As an argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Self:
        """Read what `text` has written."""
        given = json.loads(text)
        given["tcp"], given["tls"] = Address(*given["tcp"]), Address(*given["tls"])
        return cls(**given)


@dataclass
class Tally:
    """What a storm has done."""

    counts: Counter[str] = field(default_factory=Counter)
    ready: bool = False
    """It blows as hard as it will."""


class Storm(Protocol):
    """One storm: it runs until it is cancelled."""

    async def __call__(self, plan: Plan, tally: Tally) -> None: ...
