"""The fixture `configured`: starts a broker with other settings."""

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from tests.support.brokers import start_sluice
from tests.support.process import Address, BrokerProcess

KEPT: Final = 4
"""How many brokers stay running: the cases of a test run one after the other and share a broker."""


class Configured(Protocol):
    """Takes sections of a configuration, and returns the address of a broker that has them."""

    def __call__(self, **config: Any) -> Address: ...


class ConfiguredBrokers:
    """Brokers by their settings. The last ones used stay running, because the next test often needs the same."""

    def __init__(self, folder: Path, workers: int = 1) -> None:
        self._folder = folder
        self._workers = workers
        self._running: dict[str, BrokerProcess] = {}
        self._started = 0

    def start(self, **config: Any) -> Address:
        """Return the address of a broker with these sections of configuration, which is started if none is running."""
        key = repr(config)
        broker = self._running.pop(key, None)
        if broker is None:
            while len(self._running) >= KEPT:
                self._stop(next(iter(self._running)))
            self._started += 1
            folder = self._folder / str(self._started)
            folder.mkdir()
            broker = start_sluice(folder, sections=config, workers=self._workers)
        broker.assert_healthy()
        self._running[key] = broker  # at the end: it is stopped last
        return broker.address()

    def _stop(self, key: str) -> None:
        with self._running.pop(key):
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for key in list(self._running):
            self._stop(key)
