"""The interface between the AUTH exchange, which is the same for all methods, and a method, independent of MQTT."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple


class Answer(NamedTuple):
    """The result of one step of an exchange."""

    data: bytes
    """Authentication Data for the client."""
    user: str | None = None
    """The authenticated user; None = the exchange continues."""


class Exchange(ABC):
    """One exchange with one client."""

    claimed: str = ""
    """The user that the client says it is; empty until it has said so."""

    @abstractmethod
    def step(self, data: bytes) -> Answer:
        """Process the client's data. Raises MQTTError (0x87) if authentication fails; no step follows then."""


class Method(ABC):
    """An authentication method."""

    name: ClassVar[str]
    """Its name in the property Authentication Method."""

    @abstractmethod
    def begin(self) -> Exchange:
        """Return a new exchange; the client takes the first step."""
