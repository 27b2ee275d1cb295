"""Journals as tests describe them, written and read without a broker: what a session has, and in which cell."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from broker.resharding.layout import layout_of
from broker.storage import message_record, records
from broker.storage.found import find, frames
from broker.storage.index import OFFSET
from broker.storage.making import NewFrames, NewJournal
from broker.storage.owner import Owner
from broker.storage.saved import Saved, SavedSession
from broker.storage.saved_message import SavedMessage, Target
from protocol.publish import Publish
from protocol.subscribe import Subscription


class Delivery(NamedTuple):
    """What waits for a session, or is under way."""

    payload: bytes
    qos: int = 1
    topic: bytes = b"t"
    packet_id: int = 0
    """0 = it is not under way."""
    received: bool = False
    """Whether PUBREC has come."""
    retain: bool = False
    expires_at: int = 0
    identifiers: bytes = b""
    flow: int = 0
    publisher: str = ""
    """Where it is written down: of pages."""


@dataclass
class Kept:
    """A session; a group, if its name begins with `$share/`; the pages of an address, if it begins with `pages/`."""

    name: str
    deliveries: list[Delivery] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    remembered: list[int] = field(default_factory=list)
    expiry: int = 0xFFFFFFFF
    detached_at: int = 1_000_000
    owner: Owner | None = None
    will: bytes = b""
    """Its payload."""
    owed: dict[str, bytes] = field(default_factory=dict)


class Read(NamedTuple):
    """What a journal has of a session or group."""

    name: str
    group: bool
    state: list[bytes]
    """Its records, as of the number 0."""
    deliveries: list[Delivery]
    """In their order."""


def write_journal(directory: Path, kept: Iterable[Kept], retained: Iterable[Delivery] = ()) -> Path:
    """A journal with these sessions and groups."""
    directory.mkdir(parents=True, exist_ok=True)
    with closing(NewJournal(directory)) as new:
        own = NewFrames(new, 1_000)
        for number, each in enumerate(kept, 1):
            for record in _records(number, each):
                own.add(record)
        for delivery in retained:
            own.add(_message(delivery, []))
        own.end()
    return directory


def _records(number: int, each: Kept) -> list[bytes]:
    saved = SavedSession(number)
    saved.client_id, saved.version, saved.expiry, saved.detached_at = each.name, 5, each.expiry, each.detached_at
    saved.owner, saved.owed, saved.remembered = each.owner, each.owed, dict.fromkeys(each.remembered)
    saved.subscriptions = {subscription.topic_filter: subscription for subscription in each.subscriptions}
    saved.inflight = {place: own.packet_id for place, own in enumerate(each.deliveries) if own.packet_id}
    saved.received = {place for place, own in enumerate(each.deliveries) if own.received}
    saved.next_delivery = len(each.deliveries)
    if each.will:
        record = records.will(number, Publish(b"will", each.will, 1), 3)
        _, saved.will_delay, saved.will = records.read_will(record[records.HEAD_SIZE :])
    if each.name.startswith("$share/"):
        saved.group = each.name
    if each.name.startswith("pages/"):
        saved.topic = each.name.removeprefix("pages/").encode()
    messages = [
        _message(own, [Target(number, position, own.qos, own.retain, own.identifiers, 0, own.flow)])
        for position, own in enumerate(each.deliveries)
    ]
    return saved.state(number) + messages


def _message(own: Delivery, targets: list[Target]) -> bytes:
    content = own.qos, own.retain, own.topic, b"", own.payload
    saved = SavedMessage(own.expires_at, False, own.publisher, targets, *content)
    return message_record.moved(saved, not targets, targets)


def read_journals(directory: Path) -> tuple[dict[int, list[Read]], dict[int, list[Delivery]]]:
    """The sessions and groups, and the retained messages, by the number of the cell; 0 = the journal of one worker."""
    layout = layout_of(directory)
    assert not layout.folder
    places = layout.cells or {0: directory}
    kept: dict[int, list[Read]] = {}
    retained: dict[int, list[Delivery]] = {}
    for number, path in places.items():
        kept[number], retained[number] = _read(path)
    return kept, retained


def _read(directory: Path) -> tuple[list[Read], list[Delivery]]:
    found = find(directory)
    assert [str(each) for each in found.damage] == []
    contents = dict(frames(found))
    saved = Saved()
    for number, content in contents.items():
        saved.read(number, content)
    saved.finish()
    kept = [_kept(each, contents) for _, each in sorted(saved.sessions.items())]
    retained = [
        Delivery(each.saved.payload, each.saved.qos, topic, expires_at=each.saved.expires_at)
        for topic, each in sorted(saved.retained.items())
    ]
    return kept, retained


def _kept(session: SavedSession, contents: dict[int, bytes]) -> Read:
    deliveries = []
    for entry in session.deliveries.entries(0):
        content = contents[entry.frame]
        _, start, end = records.at(content, entry.offset & OFFSET)
        message = message_record.read(content[start:end])
        target = next(each for each in message.targets if each[:2] == (session.number, entry.delivery))
        packet_id = session.inflight.get(entry.delivery, 0)
        received = entry.delivery in session.received
        deliveries.append(
            Delivery(
                message.payload,
                target.qos,
                message.topic,
                packet_id,
                received,
                target.retain,
                message.expires_at,
                target.identifiers,
                target.flow,
            )
        )
    return Read(session.group or session.client_id, session.group != "", session.state(0), deliveries)
