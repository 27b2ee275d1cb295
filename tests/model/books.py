"""What must be countable: the counts of one metrics interval."""

from collections import Counter


class Books:
    """Counts by the names of the columns, and the values behind the histograms."""

    def __init__(self, now: int) -> None:
        self.interval_start = now
        self.counts: Counter[str] = Counter()
        self.drops: Counter[str] = Counter()
        self.values: dict[str, list[int]] = {}
        """Of each histogram, all that it is to show."""

    def count(self, name: str, by: int = 1) -> None:
        """Add to a count."""
        self.counts[name] += by

    def highest(self, name: str, value: int) -> None:
        """Remember the highest."""
        self.counts[name] = max(self.counts[name], value)

    def value(self, name: str, value: int) -> None:
        """Note a value for a histogram."""
        self.values.setdefault(name, []).append(value)

    def drop(self, reason: str, qos: int) -> None:
        """A delivery is dropped: counted by QoS and reason (FC-5)."""
        self.count(f"dropped_qos{qos}")
        self.drops[f"dropped_{reason}_qos{qos}"] += 1

    def supersede(self, qos: int) -> None:
        """A newer one has taken its place (FC-37): that is no drop."""
        self.count(f"superseded_qos{qos}")

    def histogram(self, name: str) -> dict[int, int]:
        """Counts by bucket: one for each value below 16, then eight of the same width to an octave, 255 at the most."""
        counts: dict[int, int] = {}
        for value in self.values.get(name, []):
            width = 1
            octave = 0
            while value >= 16 * width:
                width *= 2
                octave += 1
            bucket = min(8 * octave + value // width, 255)
            counts[bucket] = counts.get(bucket, 0) + 1
        return counts
