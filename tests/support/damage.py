"""Files as a disk may give them back."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


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
