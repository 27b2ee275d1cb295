"""What an import is made of: lines of the other configuration, findings about them, and sections of the new file."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SHOWN: Final = 200
"""Characters of a line that are shown."""

_SECRET: Final = ("password", "psk", "kpass", "auth_opt_", "plugin_opt_")
"""Parts of the names of options whose values may be secret; those of files are not."""


@dataclass(frozen=True)
class Line:
    """One line of the other configuration: an option and its value."""

    file: Path
    number: int
    name: str
    value: str = ""

    @property
    def place(self) -> str:
        """File and line."""
        return f"{printable(str(self.file))}:{self.number}"

    @property
    def shown(self) -> str:
        """The line as people may see it: without secrets, in one line."""
        if not self.name.endswith("_file") and any(part in self.name for part in _SECRET):
            return printable(f"{self.name} ***" if self.value else self.name)
        return printable(f"{self.name} {self.value}".rstrip())

    def __str__(self) -> str:
        return f"{self.place} {self.shown}"


@dataclass(frozen=True)
class Finding:
    """What has to be said about a line. `wrong`: it is unknown or malformed, or decides about access;
    else it has no counterpart."""

    line: Line
    text: str
    wrong: bool = False

    def __str__(self) -> str:
        return f"{self.line}: {self.text}"


def told(findings: Iterable[Finding]) -> list[str]:
    """What has to be said, each sentence once: below it all lines that it is about, if there are several."""
    lines: dict[str, list[str]] = {}
    for finding in findings:
        lines.setdefault(finding.text, []).append(str(finding.line))
    said: list[str] = []
    for text, about in lines.items():
        said += [f"{about[0]}: {text}"] if len(about) == 1 else [f"{text}:", *(f"  {line}" for line in about)]
    return said


@dataclass(frozen=True)
class Value:
    """The value of a key, and where it comes from."""

    value: object
    source: str


@dataclass
class Section:
    """Keys of the new file, and remarks about what has no key."""

    keys: "dict[str, Value | Section | list[Section]]" = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def put(self, key: str, value: object, *sources: object) -> None:
        """Set a key, with the lines that it comes from; a later value replaces an earlier one, and a remark says so."""
        before = self.keys.get(key)
        if isinstance(before, Value) and before.source:
            self.remarks.append(f"{before.source}: a later line replaces it")
        self.keys[key] = Value(value, ", ".join(dict.fromkeys(map(str, sources))))

    def section(self, key: str) -> "Section":
        """The section under a key; made if there is none."""
        found = self.keys.setdefault(key, Section())
        assert isinstance(found, Section)  # a key is always one or the other
        return found

    def get(self, key: str) -> object:
        """The value of a key; None if it is not set."""
        found = self.keys.get(key)
        return found.value if isinstance(found, Value) else None


def printable(text: str) -> str:
    """The text in one line, without control characters, of a bounded length."""
    clean = "".join(each if each.isprintable() else "?" for each in text)
    return clean if len(clean) <= SHOWN else clean[: SHOWN - 3] + "..."
