"""Parses the column metadata in the footer of a Parquet file.

pyarrow has the same metadata, but aborts the process on some damaged footers, such as a type that differs from the
schema, because its column classes do not translate C++ exceptions. This parses the part of Thrift's compact protocol
that Parquet uses, and raises DamagedError. Field numbers are those of parquet.thrift.
"""

from dataclasses import dataclass
from typing import Any, Final

_TRUE: Final = 1  # numbers of the compact protocol's types
_FALSE: Final = 2
CODECS: Final = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_BYTES: Final = 6  # the number of the physical type of texts
_INTEGER_BYTES: Final = {1: 4, 2: 8}  # number of a physical type -> bytes of a value


class DamagedError(ValueError):
    """A footer is damaged."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of one row group.

    Attributes:
        codec: the compression; a number if it is unknown.
        values: number of values, nulls included.
        nulls: number of nulls; None if not stated.
        low, high: of whole numbers and times, as stored; None if not stated, and for other types.
        only: of texts the one that all rows have; None if not stated, and for other types.
    """

    codec: str
    values: int
    nulls: int | None
    low: int | None
    high: int | None
    only: bytes | None = None


def row_groups(footer: bytes) -> list[list[Chunk]]:
    """The columns of each row group, in the order of the schema.

    Raises:
        DamagedError: the footer is damaged.
    """
    try:
        fields, _ = _struct(footer, 0)
        return [[_chunk(column[3]) for column in group[1]] for group in fields[4]]
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"its footer is damaged ({type(error).__name__}: {error})") from None


def _chunk(fields: dict[int, Any]) -> Chunk:
    """From ColumnMetaData."""
    number, stated = fields[4], fields.get(12, {})
    length = _INTEGER_BYTES.get(fields[1])
    bounds = [stated.get(place, stated.get(older)) for place, older in ((6, 2), (5, 1))]
    ends = [_integer(bound, length) for bound in bounds]
    only = bounds[0] if fields[1] == _BYTES and bounds[0] == bounds[1] else None
    codec = CODECS[number] if 0 <= number < len(CODECS) else str(number)
    return Chunk(codec, fields[5], stated.get(3), ends[0], ends[1], only)


def _integer(data: bytes | None, length: int | None) -> int | None:
    if data is None or length is None:
        return None
    if len(data) != length:
        raise DamagedError(f"its footer is damaged (a number of {len(data)} bytes; expected {length})")
    return int.from_bytes(data, "little", signed=True)


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The fields of a struct by number, and the position after it."""
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        kind = head & 15
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    match kind:
        case 4 | 5 | 6:  # i16, i32, i64
            return _signed(data, at)
        case 8:  # binary, string
            length, at = _unsigned(data, at)
            return data[at : at + length], at + length
        case 9 | 10:  # list, set
            return _list(data, at)
        case 12:
            return _struct(data, at)
        case 1 | 2 | 3:  # a byte, or a bool in a list
            return data[at], at + 1
        case 7:  # double
            return data[at : at + 8], at + 8
    raise DamagedError(f"its footer is damaged (type {kind} at byte {at})")


def _list(data: bytes, at: int) -> tuple[list[Any], int]:
    length, kind = data[at] >> 4, data[at] & 15
    at += 1
    if length == 15:
        length, at = _unsigned(data, at)
    if length > len(data) - at:  # an item takes at least one byte
        raise DamagedError(f"its footer is damaged (a list of {length:,} items in {len(data) - at:,} bytes)")
    items = []
    for _ in range(length):
        item, at = _value(data, at, kind)
        items.append(item)
    return items, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, lowest first; all bytes except the last have the eighth bit set."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = shift = 0
    while byte >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        byte = data[at]
    return value | byte << shift, at + 1
