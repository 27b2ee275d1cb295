"""How Spark writes Parquet here: the same rows in the same order give the same bytes, whichever JVM writes them.

Parquet's Java library lists the encodings of a column in its footer in an order that differs from one JVM to the next.
Pages of version 2 without dictionaries have one encoding only, by the column's type: deltas. Files get half as large
again (37 MB instead of 23 for 20 million raw rows), and cost as much processor time to write and to read.
"""

from typing import Final

OPTIONS: Final = {
    "compression": "zstd",
    "parquet.writer.version": "v2",
    "parquet.enable.dictionary": "false",
}
"""For DataFrameWriter."""
