"""A finding of a report: plain text without markup, for the page and summary.json."""

from dataclasses import dataclass
from enum import IntEnum


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
