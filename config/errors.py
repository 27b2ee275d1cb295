"""How mistakes in a configuration are reported: all at once, each with its place and what was expected.

ConfigError(ValueError)      one or more Problems
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One mistake. `path` is the dotted key ("" = the whole file), `source` the file, variable or flag."""

    path: str
    source: str
    line: int | None
    message: str

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        path = self.path if self.path.isprintable() else repr(self.path)[1:-1]  # a key is what somebody has written
        return ": ".join(part for part in (place, path, self.message) if part)


class ConfigError(ValueError):
    """The configuration cannot be used; `problems` says why, one entry per mistake."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        count = "a mistake" if len(self.problems) == 1 else f"{len(self.problems)} mistakes"
        super().__init__("\n".join([f"the configuration has {count}:", *(f"  {p}" for p in self.problems)]))
