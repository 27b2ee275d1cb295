"""Plots of distributions: tails by bucket."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.histogram import bucket_low, bucket_of
from spark_jobs.metrics import BUCKETS
from spark_jobs.page.svg import LETTER, Scale, cut, every, line, path, svg, text

WIDTH: Final = 400
HEIGHT: Final = 232
LEFT: Final = 52
RIGHT: Final = 12
TOP: Final = 26
FOOT: Final = 40
MOST_DECADES: Final = 5


@dataclass(frozen=True)
class Series:
    """One histogram: the count of each bucket."""

    name: str
    class_: str
    counts: Sequence[int]

    @property
    def total(self) -> int:
        """The number of values."""
        return sum(self.counts)


def _octave(bucket: int) -> int:
    """0 for the value 0, 1 for 1, 2 for 2 and 3, 3 for 4 to 7 and so on: octave n is [n - 1, n] on a binary axis."""
    return bucket_low(bucket).bit_length()


def _value_axis(place: Scale, bottom: float, unit: str) -> str:
    """Ticks at powers of ten; some are skipped if labels would overlap."""
    drawn = [line(place.start, bottom, place.stop, bottom, "axis")]
    powers = [p for p in range(10) if place.low <= p * math.log2(10) <= place.high]
    apart = abs(place(math.log2(10)) - place(0))
    step = every([formats.quantity(10**power, unit) for power in powers], apart)
    for power in powers[::step]:
        x = place(power * math.log2(10))
        label = formats.quantity(10**power, unit)
        drawn.append(line(x, bottom, x, bottom + 4, "axis"))
        # The last label is moved away from the edge.
        middle = min(x, WIDTH - len(label) * LETTER / 2)
        drawn.append(text(label, middle, bottom + 16, anchor="middle"))
    return "".join(drawn)


def at_or_above(counts: Sequence[int]) -> list[float]:
    """For each bucket, the share of the values in it or in a higher one: exact, not interpolated."""
    total = sum(counts)
    left = total
    found = []
    for number in counts:
        found.append(left / total if total else 0.0)
        left -= number
    return found


def tails(title: str, series: Sequence[Series], unit: str, axis_title: str, label: str) -> str:
    """Share of the values at or above each value, on logarithmic axes that show rare large values."""
    filled = [_octave(bucket) for one in series for bucket, number in enumerate(one.counts) if number] or [1]
    first = max(1, min(*filled, max(filled) - 4))
    last = max(first, *filled)  # if all values are 0
    least = bucket_of(1 << first - 1)
    bottom = HEIGHT - FOOT
    place = Scale(first - 1, last, LEFT, WIDTH - RIGHT)
    curves = [at_or_above(one.counts) for one in series]
    rarest = min((share for curve in curves for share in curve if share > 0), default=1.0)
    decades = min(MOST_DECADES, max(1, math.ceil(-math.log10(rarest) - 1e-9)))
    height = Scale(-decades, 0, bottom, TOP)
    drawn = [cut(title, LEFT, 12, WIDTH - RIGHT - LEFT, "head")]
    for power in range(-decades, 1):
        drawn.append(line(LEFT, height(power), WIDTH - RIGHT, height(power), "grid"))
        drawn.append(text(f"{100 * 10.0**power:g}{formats.NARROW_SPACE}%", LEFT - 7, height(power) + 4, anchor="end"))
    for one, curve in zip(series, curves, strict=True):
        points: list[tuple[float, float]] = []
        for bucket in range(least, BUCKETS):
            x, share = place(math.log2(bucket_low(bucket))), curve[bucket]
            if share == 0 or math.log10(share) < -decades:
                points.append((x, bottom))
                break
            points.append((x, height(math.log10(share))))
        drawn.append(f'<g class="{one.class_}">{path(points, "line")}</g>')
    drawn.append(_value_axis(place, bottom, unit))
    drawn.append(text(axis_title, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "tick", anchor="middle"))
    return svg("".join(drawn), WIDTH, HEIGHT, label)
