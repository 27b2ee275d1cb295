"""Validates raw files by their footers, before their rows are read, on any storage.

A Parquet file ends with its footer, so a truncated file is detected without reading it.
"""

import io
import time
from dataclasses import replace
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.compaction.thrift import Chunk, row_groups
from spark_jobs.compaction.values import FIRST_US, brokers_of, extents, impossible, moment
from spark_jobs.formats import name as shown
from spark_jobs.metrics import HISTOGRAM_TYPE, SCHEMA
from spark_jobs.storage import Entry, Storage, StorageError
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import NEWER, READ, FileRecord

TRUNCATED: Final = "truncated"
EMPTY: Final = "empty"
FOREIGN: Final = "foreign"
UNREADABLE: Final = "unreadable"
IMPOSSIBLE: Final = "impossible"

DAMAGED: Final = "is damaged"  # prefix of the reason for a file with a valid footer

AHEAD_US: Final = 24 * HOUR_US
"""How much later than its file a row may be."""
_TAIL: Final = 8  # bytes after the footer: its length, and PAR1
_CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "LZ4_RAW", "ZSTD"})

_ARROW_TYPES: Final = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    HISTOGRAM_TYPE: pa.list_(pa.int64()),
}


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type for a type name of the schema file."""
    return _ARROW_TYPES[name]


def inspect(storage: Storage, entry: Entry) -> FileRecord:
    """Read and validate a file's footer."""

    def judged(status: str, why: str) -> FileRecord:
        return FileRecord(entry.name, entry.size, entry.modified_us, status, why)

    if entry.size == 0:
        kind = storage.in_place_of_file(entry.name)
        expected = f"cannot be read: it is {kind}; expected a file"
        return judged(UNREADABLE, expected) if kind else judged(EMPTY, "is zero bytes long")
    if not is_text(entry.name):
        return judged(UNREADABLE, "cannot be read: its name is not UTF-8, so no table can have it; rename it")
    try:
        with storage.open(entry.name) as source, pq.ParquetFile(source) as file:
            metadata, schema = file.metadata, file.schema_arrow
            status, why = _schema_of(schema, metadata.metadata or {})
            if status == FOREIGN:
                return judged(status, why)
            groups = _groups(source, metadata)
            if foreign := _foreign_codec(groups):
                return judged(UNREADABLE, foreign)
            found = extents(file, groups)
            wrong = impossible(found) or _from_the_future(found["interval_end"].high, entry.modified_us)
            brokers = () if wrong else brokers_of(file, groups)
    except pa.ArrowInvalid as error:
        return judged(*_broken(storage, entry, error))
    except Exception as error:  # pyarrow raises many types for a damaged footer
        return judged(UNREADABLE, f"cannot be read: {_reason(error)}")
    if wrong:
        return replace(judged(IMPOSSIBLE, wrong), rows=metadata.num_rows)
    ends = found["interval_end"]
    good = judged(status, why)
    return replace(good, rows=metadata.num_rows, first_us=ends.low, last_us=ends.high, brokers=brokers)


def _from_the_future(last_us: int | None, modified_us: int) -> str:
    """What is wrong about rows that are later than their file; empty if nothing is.

    They would be in the store, and in the range of each report without `--to`, until their time comes. A clock that is
    less than AHEAD_US fast is a finding.
    """
    now_us = int(time.time() * 1_000_000)
    written_us = min(modified_us, now_us) if modified_us >= FIRST_US else now_us  # a copy may have lost its time
    if last_us is None or last_us <= written_us + AHEAD_US:
        return ""
    written = f"but the file was written by {moment(written_us)}"
    return f"impossible values: interval_end is {moment(last_us)}, {written} (is the broker's clock set?)"


def _reason(error: Exception) -> str:
    """Why a file cannot be read, without its name, which is said already."""
    cause = error.__cause__ if isinstance(error, StorageError) else None
    return (cause.strerror if isinstance(cause, OSError) else None) or first_line(error)


def damage_of(storage: Storage, file: FileRecord) -> FileRecord | None:
    """Read a file completely, after a job has failed. None if it is valid."""
    try:
        with storage.open(file.name) as source, pq.ParquetFile(source, page_checksum_verification=True) as parquet:
            for _ in parquet.iter_batches():
                pass
    except StorageError as error:
        return FileRecord(file.name, file.size, file.modified_us, UNREADABLE, f"cannot be read: {_reason(error)}")
    except Exception as error:  # as above
        return damaged(file, first_line(error))
    return None


def damaged(file: FileRecord, why: str) -> FileRecord:
    """The record of a file whose pages cannot be read."""
    return FileRecord(file.name, file.size, file.modified_us, UNREADABLE, f"{DAMAGED}: {why}")


def is_text(name: str) -> bool:
    """Whether a name is UTF-8; Python represents other bytes as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _broken(storage: Storage, entry: Entry, error: Exception) -> tuple[str, str]:
    try:
        with storage.open(entry.name) as file:
            begins_well = file.read(4) == b"PAR1"
    except (OSError, StorageError) as gone:
        return UNREADABLE, f"cannot be read: {first_line(gone)}"
    if begins_well:
        return TRUNCATED, f"has no Parquet footer at its end: truncated at {entry.size} bytes, or damaged"
    return UNREADABLE, f"is not a Parquet file: {first_line(error)}"


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return str(error).partition("\n")[0].removesuffix(".") or type(error).__name__


def _schema_of(schema: pa.Schema, metadata: dict[bytes, bytes]) -> tuple[str, str]:
    """Status and reason by a file's schema. Unknown columns are allowed."""
    name = metadata.get(b"sluice.schema", b"").decode(errors="replace")
    text = metadata.get(b"sluice.schema_version", b"").decode(errors="replace")
    version = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if name != SCHEMA.name or version < SCHEMA.version:
        got = f"{shown(name) or 'no schema name'} version {shown(text) or 'none'}"
        return FOREIGN, f"foreign schema: {got}; this program reads {SCHEMA.name} version {SCHEMA.version}"
    if twice := _same_name(schema.names):
        return FOREIGN, f"foreign schema: columns {twice}; expected names that differ in more than case"
    newer = f"schema version {version} is newer than {SCHEMA.version}, and " if version > SCHEMA.version else ""
    wanted = (*SCHEMA.fields, *SCHEMA.interval_fields)
    missing = [field.name for field in wanted if field.name not in schema.names]
    if missing:
        return FOREIGN, f"foreign schema: {newer}lacks {len(missing)} columns, the first is {missing[0]}"
    for field in wanted:
        got_type, right = schema.field(field.name).type, arrow_type(field.type)
        if not _same_type(got_type, right):
            return FOREIGN, f"foreign schema: {newer}column {field.name} is {got_type}; expected {right}"
    if newer:
        return NEWER, f"{newer}has all its columns: read without the new ones"
    return READ, ""


def _same_name(names: list[str]) -> str:
    """Two names that SQL, which ignores case, cannot tell apart; empty if there are none."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            return f"{seen[name.lower()]} and {name}"
        seen[name.lower()] = name
    return ""


def _groups(source: BinaryIO, metadata: pq.FileMetaData) -> list[list[Chunk]]:
    source.seek(-_TAIL - metadata.serialized_size, io.SEEK_END)
    return row_groups(source.read(metadata.serialized_size))


def _foreign_codec(groups: list[list[Chunk]]) -> str:
    """The reason why a file is not decompressed; empty if it is."""
    foreign = sorted({chunk.codec for chunks in groups for chunk in chunks} - _CODECS)
    expected = "expected zstd, snappy, gzip, lz4 or none"
    return f"cannot be read: its codec is {foreign[0]}; {expected}" if foreign else ""


def _same_type(got: pa.DataType, right: pa.DataType) -> bool:
    """Whether both are the same on disk; large variants and the name of a list's item are ignored."""
    if pa.types.is_string(right):
        return bool(pa.types.is_string(got) or pa.types.is_large_string(got))
    if pa.types.is_list(right):
        is_list = pa.types.is_list(got) or pa.types.is_large_list(got)
        return bool(is_list and got.value_type == right.value_type)
    return bool(got == right)
