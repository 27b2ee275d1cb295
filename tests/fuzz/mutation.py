"""Changes to bytes that are, or were, packets."""

import random
from typing import Final

from protocol.primitives import encode_variable_byte_integer

_TELLING: Final = (0, 1, 2, 4, 0x7F, 0x80, 0xFE, 0xFF)
"""Bytes at which something often changes."""


def damage(source: random.Random, data: bytes) -> bytes:
    """Change, insert, remove or repeat a few bytes."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 4)):
        place = source.randrange(len(changed) + 1)
        kind = source.randrange(6)
        if kind == 0:
            changed[place:place] = source.randbytes(source.randint(1, 4))
        elif kind == 1:
            changed[place:place] = changed[place : place + source.randint(1, 20)]
        elif kind == 2:
            del changed[place : place + source.randint(1, 6)]
        elif place == len(changed):
            changed.append(source.randrange(256))
        elif kind == 3:
            changed[place] ^= 1 << source.randrange(8)
        elif kind == 4:
            changed[place] = source.choice(_TELLING)
        else:
            changed[place] = source.randrange(256)
    return bytes(changed)


def fix_length(data: bytes) -> bytes:
    """Make the first packet reach to the end: what is wrong in it is then looked at, not just its length."""
    if len(data) < 2:
        return data
    start = 1
    while start < len(data) - 1 and data[start] & 0x80 and start < 4:
        start += 1
    body = data[start + 1 :]
    return data[:1] + encode_variable_byte_integer(len(body)) + body
