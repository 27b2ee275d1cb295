"""What `sluice import mosquitto` takes over of Mosquitto's persistence file, and what it says about that."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.cli.import_output import owner_of
from broker.runtime.clock import SECOND, wall_us
from broker.storage.mosquitto_db.chunks import PersistenceFile
from broker.storage.mosquitto_db.contents import MosquittoState, NewBroker
from broker.storage.mosquitto_db.unreleased import release
from broker.storage.mosquitto_db.writing import check_free, write
from config import imported

REMEDY: Final = (
    "Mosquitto writes its file anew when it is started with it and stopped; --without-persistence imports the "
    "configuration only"
)
"""What to do about a file that cannot be imported."""

_RUNNING: Final = (
    "{path}: Mosquitto has written it while it ran: what has come later is not in it. Stop Mosquitto, move {journal} "
    "away, and import again"
)
_DANGLING: Final = "{path}: {count} deliveries or retained messages are left out: their messages are not in the file"
_QOS0: Final = "{count} waiting messages of QoS 0 are not taken over: a journal keeps QoS 1 and 2"
_UNRELEASED: Final = (
    "{count} messages of QoS 2 that their publishers have not released (PUBREL) are delivered once all the same, as "
    "Sluice routes them when they come; Mosquitto would have waited"
)
_SHARED: Final = (
    "Mosquitto does not save shared subscriptions ($share/...): their clients have to subscribe again, as after a "
    "restart of Mosquitto; what waits for them is taken over"
)
_ENDED: Final = (
    "{count} sessions, for which {waiting} messages waited, are left out, as they end with their connections (also "
    "those of bridges) or have expired; so are {expired} messages that have expired"
)
_UNKNOWN: Final = (
    "Mosquitto's file does not name the users of {count} sessions: until their clients are back, these get only "
    "what every user may receive, and any user may take them up"
)


def new_broker(section: imported.Section) -> NewBroker:
    """What a new configuration says about the users of sessions."""
    listeners = section.keys["listeners"]
    assert isinstance(listeners, list)  # as they are always written
    ports: dict[int, str] = {}
    has_users = section.section("authentication").get("password_file") is not None
    for each in listeners:
        port = str(each.get("bind")).rpartition(":")[2]
        ports.setdefault(int(port) if port.isdecimal() else 0, str(each.get("name")))
        has_users = has_users or ("tls" in each.keys and each.section("tls").get("username") is not None)
    return NewBroker(has_users, ports)


class ImportedState:
    """A persistence file that has been read, and the journal that it becomes."""

    def __init__(self, path: Path, journal: Path, broker: NewBroker) -> None:
        """Read it. Raises OSError if a file cannot be read or there is a journal already, ValueError for damage."""
        check_free(journal)
        if not path.is_file():
            raise ValueError("this is not a file")
        self._path = path
        self._journal = journal
        self._reader = PersistenceFile(_content(path))
        self._contents = MosquittoState(self._reader, wall_us() // SECOND, broker)
        self._unreleased = release(self._contents)

    def write(self) -> None:
        """Write the journal. Raises OSError; then there is none."""
        write(self._contents, self._journal)

    def wrong(self) -> list[str]:
        """What needs a look."""
        lines: list[str] = []
        if not self._reader.saved_at_end:
            lines.append(_RUNNING.format(path=self._path, journal=self._journal))
        if self._contents.dangling:
            lines.append(_DANGLING.format(path=self._path, count=self._contents.dangling))
        return lines

    def told(self) -> Iterator[str]:
        """What has been taken over, what has not, and what is different."""
        contents = self._contents
        sessions = contents.sessions.values()
        inflight = sum(len(each.inflight) for each in sessions)
        queued = sum(len(each.queued) for each in sessions)
        yield (
            f"{self._journal} has what {self._path} has: {len(sessions)} sessions, "
            f"{sum(len(each.subscriptions) for each in sessions)} subscriptions, {queued} messages that wait, "
            f"{inflight} in flight, {len(contents.retained)} retained"
        )
        for count, text in ((contents.qos0, _QOS0), (self._unreleased, _UNRELEASED)):
            if count:
                yield text.format(count=count)
        if contents.expired or contents.ended:
            yield _ENDED.format(count=len(contents.ended), waiting=contents.of_ended, expired=contents.expired)
        if contents.sessions:
            yield _SHARED
        if contents.unknown_owners:
            yield _UNKNOWN.format(count=contents.unknown_owners)
        yield f"the user {owner_of(self._journal)} owns {self._journal}: the broker has to run as that user"


def _content(path: Path) -> "bytes | mmap.mmap":
    """The file, without reading it into memory."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
