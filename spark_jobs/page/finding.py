"""A finding of a report: plain text without markup, for the page and summary.json."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Grade(IntEnum):
    """The severity of a finding."""

    GOOD = 0
    NOTE = 1
    WATCH = 2
    UNFAIR = 3


@dataclass(frozen=True)
class Finding:
    """One finding: its severity, its subject in a word or two, and a text."""

    grade: Grade
    subject: str
    text: str

    @property
    def act(self) -> str:
        """What to do about it, with the key of the configuration or the command; empty if nothing has to be done."""
        return _ACTS.get(self.subject, "") if self.grade > Grade.GOOD else ""

    @property
    def see(self) -> str:
        """The section of MEASURES.md that defines the measure; empty if there is none."""
        return _SECTIONS.get(self.subject, "")

    def to_json(self) -> dict[str, str]:
        """For summary.json."""
        return {
            "grade": self.grade.name.lower(),
            "subject": self.subject,
            "text": self.text,
            "act": self.act,
            "see": self.see,
        }


_ACTS: Final = {
    "Starved": "Many at once point to the broker, one to its client: `sluice top` shows which window, rate or send "
    "path is full now. A larger `max_inflight` or `consumer_max_rate` helps sessions that these limit.",
    "Served less": "See the reasons of drops: a longer mqueue or `overflow_patience` helps against bursts, a lower "
    "`producer_max_rate` against a publisher that is too fast.",
    "Order": "The gate should keep this at 0: check that it is on.",
    "Dropped": "See the reasons of drops; `overflow_patience` paces publishers before anything is dropped.",
    "Pressure": "`sluice top` shows the sessions under pressure now.",
    "Evenness": "See the worst sessions, and the brokers and listeners beside each other.",
    "Counters": "A bug of the broker or a missing file: please report it.",
    "Input": "See data quality; damaged hours are built again by `sluice compact --rebuild`.",
}
_SECTIONS: Final = {
    "Starved": "MEASURES.md#starvation-starvation-starved_worst-starved_sessions",
    "Served less": "MEASURES.md#the-worst-worst_sessions-worst_hours-and-why",
    "Order": "MEASURES.md#the-gate-gate-reasons-inversion",
    "Dropped": "MEASURES.md#the-gate-gate-reasons-inversion",
    "Pressure": "MEASURES.md#latency-percentiles-histograms-head_of_line",
    "Evenness": "MEASURES.md#evenness-fairness-hours-lorenz",
    "Counters": "MEASURES.md#reliability-of-the-figures-books-quality-files",
    "Input": "MEASURES.md#reliability-of-the-figures-books-quality-files",
}
