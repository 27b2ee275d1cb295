"""Writes a new journal with what a persistence file of Mosquitto has."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from broker.runtime.clock import SECOND
from broker.storage import fsync, message_record, records, sqlite_journal
from broker.storage.directory import LOCK
from broker.storage.errors import StorageError
from broker.storage.found import names
from broker.storage.making import NewFrames, NewJournal, move
from broker.storage.mosquitto_db.contents import NEVER, KeptClient, MosquittoState
from broker.storage.saved_message import SavedMessage, Target
from protocol.publish_encoder import encode_outgoing_properties
from protocol.topics import parse_share

_UNFINISHED: Final = "unfinished"


def check_free(directory: Path) -> None:
    """Raise StorageError if there is a journal already, or what is left of one."""
    there = names(directory) if directory.is_dir() else []
    for path in (*there, directory / sqlite_journal.NAME, directory / LOCK, directory / _UNFINISHED):
        if path.exists() or path.is_symlink():
            raise StorageError(f"{path} exists, and a journal is never replaced: move it away")


def write(contents: MosquittoState, directory: Path) -> None:
    """Make a journal in this directory; it has its name only when it is whole. Raises StorageError, FileError."""
    with _making(directory) as folder, closing(NewJournal(folder)) as new:
        _write(contents, NewFrames(new))


def _write(contents: MosquittoState, frames: NewFrames) -> None:
    now = contents.now * SECOND
    targets: dict[int, list[Target]] = {}
    for number, session in enumerate(contents.sessions.values(), 1):
        for delivery, waiting in enumerate((*session.inflight.values(), *session.queued)):
            target = Target(number, delivery, waiting.qos, waiting.retain, waiting.identifiers, 0)
            targets.setdefault(waiting.message, []).append(target)
        for record in _state(number, session, now):
            frames.add(record)
    for number, topic_filter in enumerate(_shared(contents), len(contents.sessions) + 1):
        frames.add(records.group(number, topic_filter, 0))
    retained = set(contents.retained.values())
    for message in sorted(targets.keys() | retained):
        frames.add(_message(contents, message, message in retained, targets.get(message, [])))
    frames.end()


def _shared(contents: MosquittoState) -> list[str]:
    """The shared subscriptions: each has a queue of its own. Mosquitto 2.0 saves none."""
    filters = {each for session in contents.sessions.values() for each in session.subscriptions}
    return sorted(each for each in filters if parse_share(each) is not None)


def _state(number: int, session: KeptClient, now: int) -> Iterator[bytes]:
    """The records of a session, but for its deliveries."""
    interval, detached_at = session.interval, now
    if session.ends_at and interval != NEVER:
        detached_at = min(max(session.ends_at - interval, 1) * SECOND, now)
    elif session.ends_at:  # by persistent_client_expiration
        interval = session.ends_at - now // SECOND
    version = 4 if session.interval == NEVER else 5  # the file does not say; it is known when the client is back
    inflight = list(session.inflight.values())
    yield records.session(number, session.client_id, version, interval, len(inflight) + len(session.queued))
    if session.owner is not None:
        yield records.owner(number, session.owner)
    for subscription in session.subscriptions.values():
        yield records.subscribed(number, subscription)
    for packet_id in session.incoming:
        yield records.remembered(number, packet_id)
    if inflight:
        yield records.sent(number, [(delivery, each.packet_id) for delivery, each in enumerate(inflight)])
    for delivery, each in enumerate(inflight):
        if each.received:
            yield records.received(number, delivery)
    yield records.detached(number, detached_at, interval, False)


def _message(contents: MosquittoState, number: int, retained: bool, targets: list[Target]) -> bytes:
    message, properties = contents.message(number)
    saved = SavedMessage(
        message.expires_at * SECOND,
        retained,
        message.publisher.decode() if retained else "",
        targets,
        message.qos,
        message.retain or retained,
        message.topic,
        encode_outgoing_properties(properties) if properties else b"",
        message.payload,
    )
    return message_record.moved(saved, retained, targets)


@contextmanager
def _making(directory: Path) -> Iterator[Path]:
    """A folder for the new journal, which is put in its directory at the end. Nothing stays if that fails.

    Raises StorageError.
    """
    check_free(directory)
    new = [each for each in (directory, *directory.parents) if not each.exists()]
    unfinished = directory / _UNFINISHED
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.mkdir(mode=0o700)
        yield unfinished
        move(unfinished, directory)
        shutil.rmtree(unfinished)
        for each in (directory, *(folder.parent for folder in new)):
            fsync.sync_names(each)
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        for each in new:
            if each.exists() and not any(each.iterdir()):
                each.rmdir()
        if isinstance(error, OSError) and not isinstance(error, StorageError):
            raise StorageError(f"{directory}: {error.strerror or error}") from error
        raise
