"""The seam between the AUTH exchange, which is the same for all methods, and a method, which knows nothing of MQTT."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple


class Answer(NamedTuple):
    """What a step of an exchange has come to."""

    data: bytes
    """What the client is to be told."""
    user: str | None = None
    """Who the client has shown to be; None = the exchange goes on."""


class Exchange(ABC):
    """One exchange with one client."""

    @abstractmethod
    def step(self, data: bytes) -> Answer:
        """Take what the client says. Raises MQTTError (0x87) if it does not convince; nothing comes after that."""


class Method(ABC):
    """A way for clients to show who they are."""

    name: ClassVar[str]
    """What clients call it in Authentication Method."""

    @abstractmethod
    def begin(self) -> Exchange:
        """Return a new exchange, whose first step the client makes."""
