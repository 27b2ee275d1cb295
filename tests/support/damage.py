"""Damages files as a disk may."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def spoil(path: Path) -> None:
    """Put garbage into the pages of a Parquet file; its footer is sound."""
    data = bytearray(path.read_bytes())
    data[4:2000] = b"\xff" * 1996
    path.write_bytes(data)


def turn_a_bit(path: Path) -> None:
    """Turn over the first bit of a Parquet file with which it still can be read, but as something else."""
    data, right = path.read_bytes(), pq.read_table(path)
    footer = int.from_bytes(data[-8:-4], "little")
    for place in range(4, len(data) - 8 - footer):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        try:
            read = pq.read_table(path)
        except (OSError, pa.ArrowException):
            continue
        if not read.equals(right):
            return
    raise AssertionError(f"{path}: no single bit makes other values of it")


def overstate(path: Path, column: str) -> None:
    """Turn over a bit of a page's header, which no checksum covers: by that there are 16 values more or fewer."""
    data = bytearray(path.read_bytes())
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    offset = next(chunk.data_page_offset for chunk in columns if chunk.path_in_schema == column)
    # Thrift's compact protocol: field 5, a struct, with a 32-bit number for its first field; that is doubled.
    data[data.index(b"\x1c\x15", offset) + 2] ^= 2 * 16
    path.write_bytes(data)
