"""SVG: elements with escaped text, scales from values to positions, ticks at round values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from spark_jobs import formats

_HOURS: Final = (1, 2, 3, 6, 12, 24)
_TIME_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, *(3600 * hours for hours in _HOURS))
LETTER: Final = 8.0
"""An upper estimate of the width of a letter in numbers with a unit: wide fonts take 7.7."""
_ASCENT: Final = 13.0
_LINE: Final = 18.0
"""Above the baseline, and of a whole line of text in a plot."""


def element(tag: str, *children: str, **attributes: object) -> str:
    """One element. Attribute values are escaped, children are markup already; class_ is class, a_b is a-b."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(children)
    return f"<{tag}{written}>{inner}</{tag}>" if inner else f"<{tag}{written}/>"


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(content: str, x: float, y: float, class_: str = "tick", anchor: str = "start") -> str:
    """A line of text, escaped."""
    return element("text", escape(content), x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def cut(content: str, x: float, y: float, width: float, class_: str) -> str:
    """A line of text that the browser cuts at this width, as only it knows how wide letters are; its title is whole."""
    clip = {"x": float(x), "y": y - _ASCENT, "width": float(width), "height": _LINE, "class_": "cut"}
    return element("svg", element("title", escape(content)), text(content, 0, _ASCENT, class_), **clip)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def rect(x: float, y: float, width: float, height: float, class_: str) -> str:
    """A rectangle."""
    return element("rect", x=float(x), y=float(y), width=float(width), height=float(height), class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str, *, closed: bool = False) -> str:
    """A line through points."""
    if not points:
        return ""
    steps = " ".join(f"{_number(float(x))},{_number(float(y))}" for x, y in points)
    return element("path", d=f"M{steps}{'Z' if closed else ''}", class_=class_)


def svg(content: str, width: float, height: float, label: str, class_: str = "plot") -> str:
    """The outer element of a plot; `label` is its title, for screen readers."""
    return element(
        "svg",
        element("title", escape(label)),
        content,
        viewBox=f"0 0 {_number(float(width))} {_number(float(height))}",
        class_=class_,
        role="img",
    )


@dataclass(frozen=True)
class Scale:
    """Maps values from [low, high] to positions from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """The position of a value."""
        if self.high == self.low:
            return self.start
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


def every(labels: Sequence[str], apart: float) -> int:
    """Which of the labels at this distance have room beside each other: each, or each second, third and so on."""
    return math.ceil((max(map(len, labels), default=1) * LETTER + 6) / apart)


def round_ticks(high: float, wanted: int = 3) -> list[float]:
    """Round values from 0; only the last one is at or above `high`."""
    if high <= 0:
        return [0.0, 1.0]
    step = high / wanted
    unit = 10.0 ** math.floor(math.log10(step))
    for factor in (1, 2, 2.5, 5, 10):
        if factor * unit >= step * 0.999:
            step = factor * unit
            break
    number = math.ceil(high / step - 1e-9)
    return [i * step for i in range(number + 1)]


def time_ticks(first: float, last: float, most: int, offset: float = 0.0) -> list[float]:
    """At most `most` round times (seconds since 1970 or since a start) between first and last.

    `offset`: seconds by which the time that is shown is before the given one; that time is round.
    """
    step: float = _TIME_STEPS[-1]
    for candidate in _TIME_STEPS:
        if (last - first) / candidate <= most:
            step = candidate
            break
    while (last - first) / step > most:
        step *= 2
    moment = math.ceil((first + offset) / step) * step - offset
    ticks = []
    while moment <= last:
        ticks.append(float(moment))
        moment += step
    return ticks


def clock_label(moment: float, span: float) -> str:
    """A time as an axis label; its precision depends on the span in seconds."""
    form = "%H:%M:%S" if span < 600 else "%H:%M" if span < 2 * 86_400 else "%d %b"
    return formats.local(moment).strftime(form)


def elapsed_label(moment: float, span: float) -> str:
    """Time since the start of a run as an axis label."""
    del span
    return formats.seconds(moment)
