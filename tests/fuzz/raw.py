"""What targets have in common whose inputs are bytes as somebody sends them, or writes them into a file.

In a file `| text` stands for a line with its end, `> text` for text without one; both are escaped as in Python. What is
left is hexadecimal digits.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Final

from tests.fuzz import mutation
from tests.fuzz.target import LINE, LITERAL, TEXT, Native

_WIDTH: Final = 100
"""Bytes of text in a line of a file."""
_HEX_BYTES: Final = 32
_MOSTLY: Final = 0.8
"""The share of printable bytes from which on bytes are text."""


class Raw:
    """The inputs of a target; it adds what has to hold for them."""

    name = ""
    most_bytes = 4096
    head = 0
    """Bytes at the beginning that choose what is tried; they have a line of their own."""
    parts: Sequence[bytes] = (b"",)
    """What inputs are made of."""

    def check(self, data: bytes) -> None:
        """Try one input."""
        raise NotImplementedError

    def trace(self, data: bytes) -> Iterator[str]:
        """Tell what happens: nothing between the beginning and the end."""
        yield self.render(data).rstrip("\n")
        self.check(data)

    def piece(self, source: random.Random) -> bytes:
        """A part that is put into an input."""
        return source.choice(self.parts)

    def mutate(self, source: random.Random, data: bytes, native: Native) -> bytes:
        """Change bytes, or put a part between others or in place of them."""
        data = data.ljust(self.head, b"\0")
        head, body = data[: self.head], data[self.head :]
        kind = source.randrange(8)
        if kind == 0 and head:
            return bytes((source.randrange(256), source.randrange(9)))[: self.head] + body
        if kind <= 3:
            places = [at for at, byte in enumerate(body, 1) if byte == 10]
            start = source.choice([0, *places, len(body)]) if kind < 3 else source.randrange(len(body) + 1)
            length = source.choice((0, 0, 0, source.randrange(20)))
            return head + body[:start] + self.piece(source) + body[start + length :]
        if kind == 4:
            lines = body.splitlines(keepends=True)
            source.shuffle(lines)
            return head + b"".join(lines)
        if kind == 5:
            return head + mutation.damage(source, body)
        return head + native(body)

    def cross(self, source: random.Random, one: bytes, other: bytes) -> bytes:
        """Put them one behind the other, each up to anywhere."""
        first = source.randint(min(self.head, len(one)), len(one))
        return one[:first] + other[source.randint(min(self.head, len(other)), len(other)) :]

    def smaller(self, data: bytes) -> Iterator[bytes]:
        """Leave out bytes."""
        size = len(data) - self.head
        while size > 0:
            for at in range(self.head, len(data), size):
                yield data[:at] + data[at + size :]
            size //= 2

    def parse(self, text: str) -> bytes:
        """Read the lines of a file."""
        return b"".join(map(_parse, text.splitlines()))

    def render(self, data: bytes) -> str:
        """Write text as text, and the rest in hexadecimal digits."""
        head, body = data[: self.head], data[self.head :]
        lines = [head.hex(" ")] if head else []
        for piece in body.splitlines(keepends=True):
            lines += _render(piece)
        return "\n".join(lines) + "\n"


def check_message(message: object, *, lines: bool = False) -> None:
    """What the log says of an input cannot forge a line of it; `lines`: it is a message of several."""
    text = str(message)
    if lines:
        text = text.replace("\n", "")
    assert text.isprintable(), "a line of the log could be forged"


def _parse(line: str) -> bytes:
    if not line.startswith(LITERAL):
        return bytes.fromhex(line)
    text = line[2:].encode("ascii").decode("unicode_escape").encode("latin-1")
    return text + b"\n" if line.startswith(LINE) else text


def _render(piece: bytes) -> Iterator[str]:
    printable = sum(32 <= byte < 127 or byte in b"\r\n\t" for byte in piece)
    is_text = printable >= _MOSTLY * len(piece)
    size = _WIDTH if is_text else _HEX_BYTES
    for at in range(0, len(piece), size):
        part = piece[at : at + size]
        if not is_text:
            yield part.hex(" ")
            continue
        mark = LINE if part.endswith(b"\n") else TEXT
        escaped = part.removesuffix(b"\n").decode("latin-1").encode("unicode_escape").decode()
        if escaped.endswith(" "):
            escaped = escaped[:-1] + r"\x20"  # editors remove spaces at the end of a line
        yield f"{mark} {escaped}".rstrip()
