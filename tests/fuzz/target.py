"""What a fuzzing target is, and its inputs as text files that people can read and write.

In a file everything from `#` to the end of a line is a comment, except in lines that begin with `| ` or `> `; what is
left is the target's to read.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

CORPUS: Final = Path(__file__).parent / "corpus"
WIDTH: Final = 110
"""Characters in a line of a comment that we write."""
LINE: Final = "|"
TEXT: Final = ">"
LITERAL: Final = (LINE, TEXT)
"""What begins a line without a comment."""

Native = Callable[[bytes], bytes]
"""How the engine itself would change bytes."""


class Target(Protocol):
    """Something that takes any bytes and must keep its promises all the same."""

    name: str
    most_bytes: int
    """The longest input that is tried."""

    def check(self, data: bytes) -> None:
        """Try one input; raises whatever shows that a promise is broken."""

    def trace(self, data: bytes) -> Iterator[str]:
        """Try one input and tell line by line what happens, until it is over or raises."""

    def mutate(self, source: random.Random, data: bytes, native: Native) -> bytes:
        """Return another input like this one."""

    def cross(self, source: random.Random, one: bytes, other: bytes) -> bytes:
        """Return an input made of two."""

    def smaller(self, data: bytes) -> Iterator[bytes]:
        """Yield inputs that are shorter than this one, the shortest first."""

    def parse(self, text: str) -> bytes:
        """Return the input that a file without its comments describes."""

    def render(self, data: bytes) -> str:
        """Return a file's text for an input, with comments that say what is in it."""


def read_seed(target: Target, path: Path) -> bytes:
    """Return the input that a file holds."""
    return target.parse(without_comments(path.read_text()))


def without_comments(text: str) -> str:
    """Return what a target reads of a file's text."""
    lines = (line if line.startswith(LITERAL) else line.partition("#")[0].strip() for line in text.splitlines())
    return "\n".join(filter(None, lines))


def seeds(target: Target) -> dict[str, bytes]:
    """Return the inputs that are kept for a target, by name of their files."""
    return {path.stem: read_seed(target, path) for path in sorted((CORPUS / target.name).glob("*.txt"))}


def write_seed(target: Target, name: str, data: bytes, why: str) -> Path:
    """Keep an input; `why` becomes the comment at its head."""
    path = CORPUS / target.name / f"{name}.txt"
    head = [f"# {line[at : at + WIDTH]}" for line in why.splitlines() for at in range(0, len(line) or 1, WIDTH)]
    path.write_text("\n".join(head) + "\n" + target.render(data))
    return path
