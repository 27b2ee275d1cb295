"""What a PEM file of certificates says: from when until when each is valid, and which are roots.

Only this is read of them, by hand: a library for all of X.509 takes 12 MB of memory of each broker (measured). Whether
a certificate is one at all is for OpenSSL to say.
"""

import binascii
import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

_BLOCK: Final = re.compile(rb"-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----(.*?)-----END", re.DOTALL)

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""Of times, by tag (RFC 5280, 4.1.2.5)."""


class Certificate(NamedTuple):
    """One certificate."""

    not_before: float
    """Unix time, in seconds."""
    not_after: float
    self_issued: bool
    """Whether it names itself as its issuer: a root, or signed by itself."""
    trusted: bool
    """Whether the file says what it is trusted for (`BEGIN TRUSTED CERTIFICATE`)."""


def certificates(pem: bytes) -> list[Certificate]:
    """The certificates of a file, in its order. Raises ValueError for one that cannot be read."""
    return [_certificate(found[2], found[1] == b"TRUSTED ") for found in _BLOCK.finditer(pem)]


def _certificate(text: bytes, trusted: bool) -> Certificate:
    try:
        content, _ = _value(_value(binascii.a2b_base64(text), _SEQUENCE)[0], _SEQUENCE)
        fields = list(_fields(content))
        if fields[0][0] == _VERSION:  # left out by version 1
            del fields[0]
        _serial, _algorithm, issuer, validity, subject = fields[:5]
        not_before, not_after = (_time(tag, value) for tag, value in _fields(validity[1]))
    except (IndexError, KeyError, binascii.Error) as error:
        raise ValueError("a certificate cannot be read: a part of it is missing") from error
    return Certificate(not_before, not_after, issuer == subject, trusted)


def _fields(content: bytes) -> list[tuple[int, bytes]]:
    """Tag and content of each element (DER)."""
    found = []
    while content:
        tag = content[0]
        value, content = _value(content, tag)
        found.append((tag, value))
    return found


def _value(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of the first element, and what follows it. Raises ValueError, IndexError."""
    length, start = data[1], 2
    if data[0] != tag:
        raise ValueError(f"a certificate cannot be read: tag {data[0]:#x} instead of {tag:#x}")
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start])
    if len(data) < start + length:
        raise ValueError("a certificate cannot be read: it is cut off")
    return data[start : start + length], data[start + length :]


def _time(tag: int, value: bytes) -> float:
    found = datetime.strptime(value.decode("ascii"), _FORMATS[tag]).replace(tzinfo=UTC)
    if tag == 0x17 and found.year >= 2050:  # RFC 5280: two digits are of 1950 to 2049
        found = found.replace(year=found.year - 100)
    return found.timestamp()
