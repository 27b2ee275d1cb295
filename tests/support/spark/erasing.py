"""The metrics of three hours with two clients, for tests of what is erased from a store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.spark.compacting import HOUR, NEXT, minutes
from tests.support.spark.metrics_files import Row, write_file

SECRET: Final = "secret-client-17"
OTHER: Final = "other"
HOURS: Final = (HOUR, NEXT, "date=2026-11-21/hour=14")

Stored = tuple[Path, Path]


def rows_of_hour(number: int, client: str) -> list[Row]:
    """Two minutes of a session in an hour after noon, the second one starved."""
    first = 60 * number
    return minutes(first + 1, client=client) + minutes(first + 2, client=client, sent_qos1=0, offered_qos1=4)


def write_raw(raw: Path, hours: Mapping[int, str], *clients: str) -> None:
    """A file for each hour and client."""
    for number, folder in hours.items():
        for client in clients:
            write_file(raw / folder / f"{client[:1]}.parquet", rows_of_hour(number, client))
