"""A finding of a report: plain text without markup, for the page and summary.json."""

from dataclasses import dataclass
from enum import IntEnum

from spark_jobs.page.words import WORDS


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
        return WORDS["acts"].get(self.subject, "") if self.grade > Grade.GOOD else ""

    @property
    def see(self) -> str:
        """The section of MEASURES.md that defines the measure; empty if there is none."""
        return WORDS["sections"].get(self.subject, "")

    def to_json(self) -> dict[str, str]:
        """For summary.json."""
        return {
            "grade": self.grade.name.lower(),
            "subject": self.subject,
            "text": self.text,
            "act": self.act,
            "see": self.see,
        }
