"""Plots of distributions: shares by octave, and tails by bucket."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.histogram import bucket_low, bucket_of
from spark_jobs.metrics import BUCKETS
from spark_jobs.page.svg import LETTER, Scale, cut, every, line, path, round_ticks, svg, text

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


    @property
    def octaves(self) -> list[int]:
        """The counts of 0, 1, 2 to 3, 4 to 7 and so on: buckets of the same width on a logarithmic axis."""
        counts = [0] * OCTAVES
        for bucket, number in enumerate(self.counts):
            counts[bucket_low(bucket).bit_length()] += number
        return counts


OCTAVES: Final = bucket_low(BUCKETS - 1).bit_length() + 1


def _extent(series: Sequence[Sequence[int]]) -> tuple[int, int]:
    """First and last that is not 0."""
    filled = [place for counts in series for place, number in enumerate(counts) if number]
    return (min(filled), max(filled)) if filled else (0, 1)


def _edge(octave: int) -> float:
    """The start of an octave on an axis of powers of two: b covers [b - 1, b]; the first one (the value 0) [-1, 0]."""
    return octave - 1


def _start(bucket: int) -> float:
    """The start of a bucket on the same axis."""
    return math.log2(bucket_low(bucket)) if bucket else -1


def _value_axis(place: Scale, bottom: float, unit: str) -> str:
    """Ticks at powers of ten, and at 0 if it is shown; some are skipped if labels would overlap."""
    drawn = [line(place.start, bottom, place.stop, bottom, "axis")]
    if place.low < 0:  # bucket 0 has the place of the label 1
        drawn.append(text("0", place(-0.5), bottom + 16, anchor="middle"))
    powers = [p for p in range(place.low < 0, 10) if place.low <= p * math.log2(10) <= place.high]
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


def _axis_title(title: str, y: float) -> str:
    return text(title, (LEFT + WIDTH - RIGHT) / 2, y, "tick", anchor="middle")


def shares(title: str, series: Sequence[Series], unit: str, axis_title: str, label: str) -> str:
    """Histogram: share of the values in each octave, all series in one plot."""
    counts = [one.octaves for one in series]
    first, last = _extent(counts)
    first = max(0, min(first, last - 4))
    bottom = HEIGHT - FOOT
    place = Scale(_edge(first), _edge(last + 1), LEFT, WIDTH - RIGHT)
    highest = max((max(octaves) / sum(octaves) for octaves in counts if any(octaves)), default=0.0)
    ticks = round_ticks(highest * 100)
    height = Scale(0, ticks[-1], bottom, TOP)
    drawn = [cut(title, LEFT, 12, WIDTH - RIGHT - LEFT, "head")]
    for tick in ticks:
        drawn.append(line(LEFT, height(tick), WIDTH - RIGHT, height(tick), "grid"))
        drawn.append(text(f"{tick:g}{formats.NARROW_SPACE}%", LEFT - 7, height(tick) + 4, anchor="end"))
    for one, octaves in zip(series, counts, strict=True):
        points = [(place(_edge(first)), height(0))]
        for octave in range(first, last + 1):
            y = height(octaves[octave] / one.total * 100 if one.total else 0)
            points += [(place(_edge(octave)), y), (place(_edge(octave + 1)), y)]
        points.append((place(_edge(last + 1)), height(0)))
        drawn.append(f'<g class="{one.class_}">{path(points, "area", closed=True)}{path(points, "line")}</g>')
    drawn.append(_value_axis(place, bottom, unit))
    drawn.append(_axis_title(axis_title, HEIGHT - 6))
    return svg("".join(drawn), WIDTH, HEIGHT, label)


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
    first, last = _extent([one.octaves for one in series])
    first = max(1, min(first, last - 4))
    last = max(first, last)  # if all values are 0
    least = bucket_of(1 << first - 1)
    bottom = HEIGHT - FOOT
    place = Scale(_edge(first), _edge(last + 1), LEFT, WIDTH - RIGHT)
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
            share = curve[bucket]
            if share == 0 or math.log10(share) < -decades:
                points.append((place(_start(bucket)), bottom))
                break
            points.append((place(_start(bucket)), height(math.log10(share))))
        drawn.append(f'<g class="{one.class_}">{path(points, "line")}</g>')
    drawn.append(_value_axis(place, bottom, unit))
    drawn.append(_axis_title(axis_title, HEIGHT - 6))
    return svg("".join(drawn), WIDTH, HEIGHT, label)
