"""A finding of a report: plain text without markup, for the page and summary.json."""

import shlex
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from spark_jobs.measures.result import moment
from spark_jobs.page.words import WORDS

CLIENT: Final = "CLIENT"
"""What a command has in place of a client id that cannot be typed."""
_LONGEST: Final = 60  # letters of a client id in a command


class Grade(IntEnum):
    """The severity of a finding."""

    GOOD = 0
    NOTE = 1
    WATCH = 2
    UNFAIR = 3


CLASSES: Final = {Grade.UNFAIR: "bad", Grade.WATCH: "watch", Grade.NOTE: "plain", Grade.GOOD: "good"}
"""For the style sheet."""


@dataclass(frozen=True)
class Knob:
    """A key of the configuration, and its rule in FLOW-CONTROL.md; empty if it has none."""

    key: str
    rule: str


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        grade: its severity.
        subject: a word or two.
        text: what was found.
        why: the reason that most of the sessions have, which decides the keys; empty if there is none.
        client: the id of the client that the command asks about; empty if it is not about clients.
        broker: the client's broker.
        start_us, end_us: when it was, from the first to the last; None if it was all the time, or is not about a time.
        episodes: start and end of each time between them, if they are known.
        count: how many clients, deliveries, rows ... it is about; None if it is about a share or an index.
        remedy: what to do, if that is more than the words about its subject.
        part: the part of the subject that decides what to do, command and keys; empty for the whole.
        hours: the range that the command is about, START..END; empty if it has none.
    """

    grade: Grade
    subject: str
    text: str
    why: str = ""
    client: str = ""
    broker: str = ""
    start_us: int | None = None
    end_us: int | None = None
    episodes: tuple[tuple[int, int], ...] = ()
    count: int | None = None
    remedy: str = ""
    part: str = ""
    hours: str = ""

    @property
    def act(self) -> str:
        """What to do about it; empty if nothing has to be done."""
        return self.remedy or self._words_of_part("acts")

    @property
    def knobs(self) -> list[Knob]:
        """The keys that change it, by its reason if that is known."""
        known = self._words("knobs_by_reason", self.why) or self._words_of_part("knobs")
        return [Knob(*each.split(" ")) if " " in each else Knob(each, "") for each in known.split(", ") if each]

    @property
    def command(self) -> str:
        """The command that shows more of it; empty if there is none."""
        start, _, end = self.hours.partition("..")
        command = self._words_of_part("commands").replace("HOURS", f"--from {start} --to {end}")
        if not self.client.isprintable() or not 0 < len(self.client) <= _LONGEST:
            return command
        if self.client.startswith("-"):  # it is no option
            command = command.replace(f" {CLIENT}", f" -- {CLIENT}")
        return command.replace(CLIENT, shlex.quote(self.client))

    @property
    def definition(self) -> str:
        """The definition on the page of what is measured; empty if there is none."""
        return WORDS["defined"].get(self.subject, "")

    @property
    def section(self) -> str:
        """The id of the section of the page that shows more; empty if there is none."""
        return WORDS["shown"].get(self.subject, "")

    @property
    def see(self) -> str:
        """The section of MEASURES.md that defines the measure; empty if there is none."""
        return WORDS["sections"].get(self.subject, "")

    def to_json(self) -> dict[str, Any]:
        """For summary.json."""
        return {
            "grade": self.grade.name.lower(),
            "subject": self.subject,
            "text": self.text,
            "client": self.client or None,
            "broker": self.broker or None,
            "from": None if self.start_us is None else moment(self.start_us).isoformat(),
            "to": None if self.end_us is None else moment(self.end_us).isoformat(),
            "count": self.count,
            "act": self.act,
            "knobs": [{"key": knob.key, "rule": knob.rule} for knob in self.knobs],
            "command": self.command,
            "see": self.see,
        }

    def _words_of_part(self, about: str) -> str:
        return self._words(about, f"{self.subject}: {self.part}") or self._words(about)

    def _words(self, about: str, name: str | None = None) -> str:
        return WORDS[about].get(self.subject if name is None else name, "") if self.grade > Grade.GOOD else ""
