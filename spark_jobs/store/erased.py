"""What users had erased, so that no compaction brings it back: ranges of hours, and digests of client ids."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

import pyarrow as pa

from spark_jobs.store.delta import ERASED, Snapshot
from spark_jobs.store.schema import SESSIONS
from spark_jobs.store.taken import ERASED_SCHEMA


@dataclass(frozen=True)
class Erased:
    """What is left out of a store.

    Attributes:
        hours: ranges [start, end) of dropped hours, apart from each other, in microseconds.
        clients: digest of a client id -> its rows up to this interval_end are left out.
        salt: what digests of this store begin with, before the client id.
    """

    hours: tuple[tuple[int, int], ...] = ()
    clients: Mapping[str, int] = field(default_factory=dict)
    salt: str = ""

    def has(self, hour_us: int) -> bool:
        """Whether the hour with this start was dropped."""
        return any(start <= hour_us < end for start, end in self.hours)

    def has_all(self, hours: Collection[int]) -> bool:
        """Whether there are hours, and all of them were dropped."""
        return bool(hours) and all(map(self.has, hours))

    def digest(self, client_id: str) -> str:
        """What the store knows a forgotten client by."""
        return sha256(f"{self.salt}{client_id}".encode()).hexdigest()

    def with_hours(self, start_us: int, end_us: int) -> "Erased":
        """This, and a range of hours."""
        joined = [each for each in self.hours if each[0] <= end_us and each[1] >= start_us]
        whole = (min([start_us, *(start for start, _ in joined)]), max([end_us, *(end for _, end in joined)]))
        return replace(self, hours=tuple(sorted([*(set(self.hours) - set(joined)), whole])))

    def without_hours(self, start_us: int, end_us: int) -> "Erased":
        """This without a range of hours."""
        pieces = [
            piece
            for start, end in self.hours
            for piece in ((start, min(end, start_us)), (max(start, end_us), end))
            if piece[0] < piece[1]
        ]
        return replace(self, hours=tuple(pieces))

    def with_client(self, client_id: str, until_us: int) -> "Erased":
        """This, and a client's rows up to this interval_end."""
        return replace(self, clients={**self.clients, self.digest(client_id): until_us})

    def table(self) -> pa.Table:
        """This as rows of the store's table."""
        rows = [(None, start, end) for start, end in self.hours] + [
            (digest, 0, until) for digest, until in sorted(self.clients.items())
        ]
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        arrays = [pa.array(values, kind) for values, kind in zip(columns, ERASED_SCHEMA.types, strict=True)]
        return pa.Table.from_arrays(arrays, schema=ERASED_SCHEMA)


NOTHING: Final = Erased()


def erased_of(snapshot: Snapshot) -> Erased:
    """What is left out of a store."""
    table = snapshot.arrow(ERASED)
    times = (table[name].cast(pa.int64()).to_pylist() for name in ERASED_SCHEMA.names[1:])
    rows = list(zip(table["client_digest"].to_pylist(), *times, strict=True))
    return Erased(
        tuple((start, end) for digest, start, end in rows if digest is None),
        {digest: end for digest, _, end in rows if digest is not None},
        str(snapshot.tables[SESSIONS].metadata().id),
    )
