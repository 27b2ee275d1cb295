"""The model of a fleet: all its parameters."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

SECOND: Final = 1_000_000
QUARTER_US: Final = 900 * SECOND
LEAST_INTERVALS: Final = 12
"""Fewer intervals leave no room for an episode."""


class ModelError(ValueError):
    """The parameters are inconsistent."""


@dataclass(frozen=True)
class Model:
    """Size and behaviour of a fleet; times in microseconds."""

    sessions: int = 1000
    brokers: int = 4
    start_us: int = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp()) * SECOND
    length_us: int = 24 * 3600 * SECOND
    interval_us: int = 60 * SECOND
    rows: int | None = None
    """Approximate number of rows, over all brokers; None: each session has one in every interval."""
    files: int | None = None
    """Over all brokers; None: one per quarter of an hour and broker, as the exporter writes them."""
    seed: int = 7
    unfair: float = 0.02
    """The share of sessions with an episode; none if 0, else at least one of each kind on every broker."""
    visitors: float = 0.02
    busiest: float = 2000.0
    """Deliveries that the busiest session of a broker is offered in one row."""
    calmest: float = 0.5
    exponent: float = 0.9
    skew: float = 0.0
    """The share of all sessions that the first broker has; 0: all have as many. Needs `rows` to be None."""

    @property
    def intervals(self) -> int:
        """Exports of each broker."""
        return self.length_us // self.interval_us

    @property
    def heartbeat_us(self) -> int:
        """After this time an idle session has a row, as with the exporter."""
        return max(3600 * SECOND - self.interval_us, self.interval_us)

    def check(self) -> None:
        """Raise ModelError if the parameters are inconsistent."""
        if self.intervals < LEAST_INTERVALS:
            raise ModelError(f"{self.intervals} intervals are too few: expected at least {LEAST_INTERVALS}")
        if self.sessions < self.brokers or self.brokers < 1:
            raise ModelError(f"{self.sessions} sessions are too few for {self.brokers} brokers")
        if self.skew and (self.rows is not None or self.brokers < 2 or not 0 < self.skew < 1):
            raise ModelError(f"skew {self.skew:g}: expected a share, at least 2 brokers, and no number of rows")
        most = self.sessions * self.intervals
        if self.rows is not None and not 0 < self.rows <= most:
            raise ModelError(f"{self.rows} rows: {self.sessions} sessions and {self.intervals} intervals make {most}")
        if self.files is not None and not self.brokers <= self.files <= self.brokers * self.intervals:
            raise ModelError(f"{self.files} files: expected {self.brokers} to {self.brokers * self.intervals}")

    def sessions_of(self, broker: int) -> int:
        """The number of sessions of one broker."""
        sessions, brokers, number = self.sessions, self.brokers, broker
        if self.skew:
            first = round(self.sessions * self.skew)
            if broker == 0:
                return first
            sessions, brokers, number = self.sessions - first, self.brokers - 1, broker - 1
        return sessions // brokers + (number < sessions % brokers)

    def rows_of(self, broker: int, interval: int) -> int | None:
        """The number of rows of one export; None: one of each session."""
        if self.rows is None:
            return None
        exports = self.brokers * self.intervals
        number = interval * self.brokers + broker
        return self.rows * (number + 1) // exports - self.rows * number // exports

    def files_of(self, broker: int) -> int:
        """The number of files of one broker."""
        if self.files is None:
            return -(-self.length_us // QUARTER_US)
        return self.files // self.brokers + (broker < self.files % self.brokers)

    def ends_file(self, interval: int, written: int, files: int) -> bool:
        """Whether an interval is the last one of a broker's file, after so many files of its `files`."""
        if self.files is not None:
            return interval + 1 == self.intervals * (written + 1) // files
        following = self.start_us + (interval + 2) * self.interval_us
        return interval + 1 == self.intervals or following // QUARTER_US > (following - self.interval_us) // QUARTER_US
