"""The picture of a comparison for a README: one SVG file that stands alone, light or dark."""

from textwrap import wrap
from typing import Final

from spark_jobs import distributions, words
from spark_jobs.distributions import Bar
from spark_jobs.run import Run
from spark_jobs.sections import series_of
from spark_jobs.svg import element, rect, text
from spark_jobs.verdict import compared_headline

WIDTH: Final = 880
_PLOT: Final = distributions.WIDTH
_LEFT: Final = 24
_RIGHT: Final = 456

_STYLE: Final = """
text { font: 11.5px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; fill: #5d6570 }
.head { font-size: 12.5px; font-weight: 600; fill: #1c1f23 }
.title { font-size: 16px; font-weight: 640; fill: #1c1f23 }
.paper { fill: #fdfdfc } .grid { stroke: #ecece8 } .axis { stroke: #5d6570; opacity: .55 }
.line { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round }
.area { fill: var(--c); opacity: .16 }
.bar { fill: var(--c); opacity: .9 }
.r0 { --c: #c0792a } .r1 { --c: #2f6bd0 }
@media (prefers-color-scheme: dark) {
  text { fill: #9aa1ab } .head, .title { fill: #e7e8ea }
  .paper { fill: #15171a } .grid { stroke: #25282d } .axis { stroke: #9aa1ab }
  .r0 { --c: #e0a35a } .r1 { --c: #7aa9f5 }
}
"""


def compared(before: Run, after: Run) -> str:
    """Mailbox length, acknowledgement latency, and QoS 0 inside and outside of pressure, of two runs."""
    runs = (before, after)
    heading, top = _heading(before, after)
    parts = [heading]
    for metric, qos, title, unit, axis, x, y in (
        (
            "mailbox",
            "all",
            "Mailbox length: share of samples at or above",
            "",
            "deliveries in the mailbox",
            _LEFT,
            top,
        ),
        (
            "ack",
            "1",
            "QoS 1 acknowledged: share at or above",
            "us",
            "from first sent to acknowledged",
            _RIGHT,
            top,
        ),
        (
            "ack",
            "2",
            "QoS 2 acknowledged: share at or above",
            "us",
            "from first sent to acknowledged",
            _LEFT,
            top + 250,
        ),
    ):
        series = [series_of(run, metric, qos, run.label, f"r{i}") for i, run in enumerate(runs)]
        if any(one.total for one in series):
            parts.append(_placed(distributions.tails(title, series, unit, axis, title), x, y))
    groups = []
    for scope, name in (
        ("pressure_windows", "while some session is under pressure"),
        ("other_windows", "otherwise"),
    ):
        bars = []
        for i, run in enumerate(runs):
            rate = run.one("pressure", scope=scope)["sent_qos0_per_second"]
            bars.append(Bar(f"r{i}", rate or 0.0, words.rate(rate)))
        groups.append((f"QoS 0 sent, {name}", bars))
    parts.append(_placed(distributions.bars(groups, _PLOT, "QoS 0 sent per second"), _RIGHT, top + 250))
    height = top + 250 + distributions.HEIGHT + 16
    content = rect(0, 0, WIDTH, height, "paper") + "".join(parts)
    style = element("style", _STYLE)
    return element(
        "svg",
        style + content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
        width=WIDTH,
        height=float(height),
        role="img",
        aria_label=compared_headline(before, after),
    )


def _heading(before: Run, after: Run) -> tuple[str, float]:
    """The verdict and what the colours stand for; and where the plots may begin."""
    lines = wrap(compared_headline(before, after), 84)
    drawn = [text(line, _LEFT, 34 + 21 * i, "title") for i, line in enumerate(lines)]
    y = 38.0 + 21 * len(lines)
    x = float(_LEFT)
    for i, run in enumerate((before, after)):
        drawn.append(f'<g class="r{i}">{rect(x, y - 9, 14, 9, "bar")}</g>')
        drawn.append(text(words.name(run.label), x + 20, y, "head"))
        x += 44 + 7.2 * len(words.name(run.label))
    return "".join(drawn), y + 28


def _placed(plot: str, x: float, y: float) -> str:
    """A plot put at a place inside of another picture: its elements, without a drawing area of their own."""
    content = plot[plot.index(">") + 1 : plot.rindex("</svg>")]
    return element("g", content, transform=f"translate({x:g} {y:g})")
