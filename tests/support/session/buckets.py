"""Histograms by their definition, one value after the other."""

from collections import Counter
from collections.abc import Iterable


def bucket_of(value: int) -> int:
    """The bucket of a value, 0 or more, by the words of metrics_schema.json."""
    if value < 16:
        return value
    octave = value.bit_length() - 4
    return min(8 * octave + (value >> octave), 255)


def counts_of(values: Iterable[int]) -> dict[int, int]:
    """How many of the values each bucket counts."""
    return dict(Counter(map(bucket_of, values)))
