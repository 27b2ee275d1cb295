"""A broker in this process with a journal on disk, which the test advances step by step."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker.persistence import Persistence
from broker.storage import message_record
from broker.storage.saved import SavedSession
from broker.storage.saved_message import SavedMessage, Target
from broker.storage.storage import Storage
from protocol import properties as props
from protocol.connect import Connect, Will
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.local import LocalBroker, LocalClient

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}


@contextmanager
def broker_on(
    directory: Path, memory: int = 0, max_bytes: int = 0, **sections: Any
) -> Iterator[tuple[LocalBroker, Storage]]:
    """A broker on the journal of a directory; `memory`: bytes of waiting deliveries; 0 = any number."""
    storage = Storage(directory, 0, memory, max_bytes)
    with LocalBroker(journal=storage.journal, **sections) as local:
        local.run(lambda: Persistence(storage).restore(local.broker))
        yield local, storage
        local.complete(storage.journal.commits.reach())
        local.complete(storage.close())


def waiting(storage: Storage, saved: SavedSession) -> dict[int, tuple[SavedMessage, Target]]:
    """The deliveries of a session or group that the journal holds, by number: the message, and for whom it is."""
    reader = storage.journal.reader
    assert reader is not None
    entries = saved.deliveries.entries(0)
    found: dict[int, tuple[SavedMessage, Target]] = {}
    for entry, body in zip(entries, reader.read_now(entries), strict=True):
        message = message_record.read(body)
        for target in message.targets:
            if (target.session, target.delivery) == (saved.number, entry.delivery):
                found[entry.delivery] = content_of(message), target
    return found


def content_of(saved: SavedMessage) -> SavedMessage:
    """What a message is, whoever it is for, and whether it is still retained."""
    return saved._replace(targets=[], retained=False, publisher="")


def on_disk(local: LocalBroker, storage: Storage) -> None:
    """Wait until all that has been written is on disk."""
    local.complete(storage.journal.commits.reach())


def all_read(local: LocalBroker, storage: Storage) -> None:
    """Wait until the reader's thread has read what it was asked for by now."""
    reader = storage.journal.reader
    assert reader is not None
    local.complete(reader.read([]))


def say(local: LocalBroker, storage: Storage, client: LocalClient, *packets: Packet) -> list[Packet]:
    """Have the broker read these, one commit for each; returns what has come back."""
    came: list[Packet] = []
    for packet in packets:
        client.send(packet)
        local.complete(storage.journal.commits.reach())
        local.run(lambda: None)
        came += client.received()
    return came


def connected(local: LocalBroker, storage: Storage, client_id: str, *filters: str) -> LocalClient:
    """A client with a kept session, a will and subscriptions."""
    client = local.client()
    will = Will(b"will", client_id.encode(), 1, False, {props.WILL_DELAY_INTERVAL: 30})
    connect = Connect(client_id, False, 0, will=will, properties=KEPT, version=5)
    wanted = [Subscribe(1, [Subscription(topic_filter, 2)]) for topic_filter in filters]
    say(local, storage, client, connect, *wanted)
    return client
