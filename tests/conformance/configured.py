"""What the fixture `configured` is: starts a broker with settings of its own."""

from typing import Any, Protocol

from tests.support.process import Address


class Configured(Protocol):
    """Takes the sections of a configuration and returns where the broker that has them listens."""

    def __call__(self, **config: Any) -> Address: ...
