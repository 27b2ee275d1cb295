"""Reads a journal: its frames, in order, give the state that has to be restored (FC-27)."""

import struct
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, final

from broker.storage import frame, message_record, records
from broker.storage.index import SHIFT
from broker.storage.message import Frame
from broker.storage.owner import Owner
from broker.storage.records import DamagedError
from broker.storage.saved_deliveries import SavedDeliveries
from broker.storage.saved_message import SavedMessage
from protocol.decoder import Decoder
from protocol.errors import MQTTError
from protocol.packet_types import PUBLISH
from protocol.properties import Properties, decode_properties
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.cost import around


@final
class SavedRetained:
    """A retained message, and where it is in the journal."""

    def __init__(self, saved: SavedMessage, publish: Publish, place: "RecordPlace") -> None:
        self.saved = saved
        self.publish = publish
        self.place = place


@final
class RecordPlace:
    """Where a message is: its frame, and the position and bytes of its record in it."""

    def __init__(self, frame: int, offset: int, length: int) -> None:
        self.frame = frame
        self.offset = offset
        self.length = length


def decode(packet: bytes, decoder: Decoder) -> Publish:
    """The PUBLISH in these bytes, without its packet id. Raises DamagedError."""
    try:
        decoder.feed(packet)
        publish = decoder.next_packet()
    except MQTTError as error:
        raise DamagedError(f"not a PUBLISH: {error}") from error
    if not isinstance(publish, Publish) or decoder.buffered:
        raise DamagedError("not a PUBLISH")
    publish.packet_id = 0
    return publish


def to_publish(saved: SavedMessage) -> Publish:
    """The PUBLISH of a message. Raises DamagedError."""
    return Publish(saved.topic, saved.payload, saved.qos, saved.retain, _properties(saved.properties))


def _properties(encoded: bytes) -> Properties | None:
    if not encoded:
        return None
    try:
        return decode_properties(encoded, 0, len(encoded), PUBLISH)[0]
    except MQTTError as error:
        raise DamagedError(f"not the properties of a PUBLISH: {error}") from error


@final
class SavedSession:
    """A kept session, the queue of a group, or the pages of an address: a queue.

    Its deliveries may be in earlier frames than SESSION, GROUP or ADDRESS.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.begun = False
        """Whether SESSION, GROUP or ADDRESS has been read."""
        self.begins_in: Frame | None = None
        """The frame with the last SESSION, GROUP or ADDRESS."""
        self.client_id = ""
        self.group = ""
        """`$share/group/filter` if it is the queue of a shared subscription; else empty."""
        self.topic = b""
        """The topic if these are the pages of an address (FC-26); else empty."""
        self.owner: Owner | None = None
        """None: a broker has written it that did not keep this."""
        self.will: bytes = b""
        """The PUBLISH of its will, if that is still to be published."""
        self.will_delay = 0
        """Seconds."""
        self.version = 0
        self.expiry = 0
        self.detached_at = 0
        """Microseconds since 1970 UTC, by the clock as it was set last; 0 = its client was connected at the end."""
        self.first_delivery = 0
        self.next_delivery = 0
        self.subscriptions: dict[str, Subscription] = {}
        self.owed: dict[str, bytes] = {}
        """By filter: the topic behind which its retained messages are still to be sent."""
        self.newer: set[bytes] = set()
        """Topics of retained messages that it has got as they were published, while others were still to be sent."""
        self.deliveries = SavedDeliveries()
        """A message may be in a later frame than what is known of its deliveries."""
        self.inflight: dict[int, int] = {}
        """Packet ids of deliveries that have been sent, in that order."""
        self.received: set[int] = set()
        """Deliveries whose PUBREC has come."""
        self.remembered: dict[int, None] = {}
        """Packet ids of the client that wait for PUBREL, oldest first."""

    def is_will(self) -> bool:
        """Whether only a will is kept: its session has ended with the process."""
        kept = self.expiry > 0 or self.detached_at > 0 or self.deliveries.length > 0 or len(self.subscriptions) > 0
        return self.will != b"" and not kept

    def is_former(self) -> bool:
        """Whether a session is only there for what was dropped with it and is still to be told (FC-35)."""
        return self.detached_at > 0 and self.expiry == 0

    def state(self, number: int) -> list[bytes]:
        """Its state, except the deliveries, as records; `number`: of the queue that they are about."""
        next_delivery = self.next_delivery
        if self.topic:
            return [records.address(number, self.topic, next_delivery)]
        if self.group:
            return [records.group(number, self.group, next_delivery)]
        state = [
            records.session(number, self.client_id, self.version, self.expiry, next_delivery),
            *[records.subscribed(number, subscription) for subscription in self.subscriptions.values()],
            *[records.owed(number, name, topic) for name, topic in self.owed.items()],
            *[records.remembered(number, packet_id) for packet_id in self.remembered],
        ]
        if self.owner is not None:
            state.append(records.owner(number, self.owner))
        if self.inflight:
            state.append(records.sent(number, list(self.inflight.items())))
        state += [records.received(number, delivery) for delivery in self.received]
        if self.will:
            state.append(records.saved_will(number, self.will, self.will_delay))
        if self.detached_at:
            state.append(records.detached(number, self.detached_at, self.expiry, bool(self.will)))
        return state

    def state_bytes(self) -> int:
        """Bytes of its state, about, as it is written again when its frame is removed."""
        return sum(map(len, self.state(self.number)))

    def remove(self, delivery: int) -> None:
        """A delivery is done."""
        self.deliveries.remove(delivery)
        if self.inflight:
            self.inflight.pop(delivery, None)
            self.received.discard(delivery)


_Lookup: TypeAlias = Callable[[int], SavedSession]
"""Finds a session by number, or begins it."""


@final
class Saved:
    """All that has to be restored."""

    def __init__(self, topics: bool = False, flows: bool = False) -> None:
        """`topics`, `flows`: whether to read those of deliveries."""
        self._topics: dict[bytes, bytes] | None = {} if topics else None
        self._flows = flows
        self.sessions: dict[int, SavedSession] = {}
        self.retained: dict[bytes, SavedRetained] = {}
        self.frames: dict[int, Frame] = {}
        self.last_frame = 0
        self.last_queue = 0
        self.steps: list[tuple[int, int, int]] = []
        """Frame and position of each CLOCK, and by how much the wall clock was set."""
        self._frame = Frame(0)
        self._handlers: dict[int, Callable[[bytes], None]] = {
            records.SESSION: self._session,
            records.CONNECTED: self._connected,
            records.DETACHED: self._detached,
            records.ENDED: self._ended,
            records.SUBSCRIBED: partial(_subscribed, self._session_of),
            records.UNSUBSCRIBED: partial(_unsubscribed, self._session_of),
            records.SENT: self._sent,
            records.RECEIVED: self._received,
            records.DONE: self._done,
            records.REMEMBERED: self._remembered,
            records.FORGOTTEN: self._forgotten,
            records.CLEARED: self._cleared,
            records.GROUP: self._group,
            records.WILL: self._will,
            records.ADDRESS: self._address,
            records.OWNER: self._owner,
            records.OWED: partial(_owed, self._session_of),
            records.PAID: partial(_paid, self._session_of),
        }

    def read(self, number: int, content: bytes) -> None:
        """Read the next frame. Raises DamagedError, with the frame's number."""
        try:
            before, self.last_frame = self.last_frame, number
            if before and number != before + 1:
                raise DamagedError(f"the one before it is frame {before}: those between are missing")
            own = self.frames[number] = self._frame = Frame(number)
            own.size = frame.padded(len(content))
            self._read(number, content)
        except (DamagedError, struct.error, UnicodeDecodeError, KeyError, IndexError) as error:
            raise DamagedError(f"frame {number}: {error}") from error

    def _read(self, number: int, content: bytes) -> None:
        """Read the records of a frame."""
        position, size = frame.HEAD_SIZE, len(content)
        plain = self._topics is None and not self._flows
        while position < size:
            if plain:
                end, own, delivery, qos, payload = message_record.scan_plain(content, position)
                if end:
                    self._add(own, delivery, number << SHIFT | position, qos, payload, end - position)
                    position = end
                    continue
            kind, start, position = records.at(content, position)
            if kind == records.MESSAGE:
                self._message(content, start, position)
            elif kind == records.CLOCK:
                self._clock(content[start:position], start - records.HEAD_SIZE)
            elif kind in self._handlers:
                self._handlers[kind](content[start:position])
            else:
                raise DamagedError(f"a record of the unknown kind {kind}")

    def _session_of(self, number: int) -> SavedSession:
        session = self.sessions.get(number)
        if session is None:
            session = self.sessions[number] = SavedSession(number)
            self.last_queue = max(self.last_queue, number)
        return session

    def live_bytes(self) -> int:
        """Bytes of the messages that a session, group or topic still needs, and of the state of all sessions."""
        needed = {each.place.frame << SHIFT | each.place.offset: each.place.length for each in self.retained.values()}
        for session in self.sessions.values():
            needed.update(session.deliveries.records())
        return sum(needed.values()) + sum(session.state_bytes() for session in self.sessions.values())

    def finish(self) -> None:
        """All frames have been read: remove sessions that have ended, of which only late records were found."""
        self.sessions = {number: session for number, session in self.sessions.items() if session.begun}

    def _message(self, content: bytes, start: int, end: int) -> None:
        scanned = message_record.scan(content, start, end)
        offset = start - records.HEAD_SIZE
        topic, cost = b"", 0
        if self._topics is not None:
            topic = content[scanned.topic_at : scanned.topic_end]
            topic = self._topics.setdefault(topic, topic)  # many messages have the same one
            cost = scanned.size + around(topic, _properties(content[scanned.topic_end : end - scanned.size]))
        place = self._frame.number << SHIFT | offset
        for number, delivery, qos, group, flow in scanned.targets:
            if group > self.last_queue:
                self.last_queue = group  # it may have ended: its number is not used again
            session = self._add(number, delivery, place, qos, scanned.size, end - offset)
            if topic:
                session.deliveries.add_topic(delivery, topic, cost)
            if self._flows:
                session.deliveries.add_flow(delivery, flow)
            if scanned.retained and session.owed:
                session.newer.add(content[scanned.topic_at : scanned.topic_end])
        if scanned.retained:
            saved = message_record.read(content[start:end])
            publish = to_publish(saved)
            self.retained[publish.topic] = SavedRetained(
                saved, publish, RecordPlace(self._frame.number, offset, end - offset)
            )

    def _add(self, number: int, delivery: int, place: int, qos: int, size: int, length: int) -> SavedSession:
        """A queue has got a delivery."""
        session = self._session_of(number)
        if delivery >= session.next_delivery:
            session.next_delivery = delivery + 1
        elif delivery < session.first_delivery:
            session.first_delivery = delivery
        session.deliveries.add(delivery, place, qos, size, length)
        return session

    def _session(self, body: bytes) -> None:
        number, version, expiry, next_delivery, client_id = records.read_session(body)
        session = self._session_of(number)
        session.begun, session.begins_in, session.will, session.owner = True, self._frame, b"", None
        session.client_id, session.version, session.expiry, session.detached_at = client_id, version, expiry, 0
        session.next_delivery = max(session.next_delivery, next_delivery)
        session.subscriptions.clear()
        session.owed.clear()
        session.remembered.clear()
        session.inflight.clear()
        session.received.clear()

    def _connected(self, body: bytes) -> None:
        number, version, expiry = records.read_connected(body)
        session = self._session_of(number)
        session.version, session.expiry, session.detached_at, session.will = version, expiry, 0, b""

    def _owner(self, body: bytes) -> None:
        number, owner = records.read_owner(body)
        self._session_of(number).owner = owner

    def _detached(self, body: bytes) -> None:
        number, at, expiry, has_will = records.read_detached(body)
        session = self._session_of(number)
        session.detached_at, session.expiry = at, expiry
        if not has_will:
            session.will = b""

    def _clock(self, body: bytes, position: int) -> None:
        step = records.read_clock(body)
        self.steps.append((self._frame.number, position, step))
        for session in self.sessions.values():
            if session.detached_at:
                session.detached_at += step

    def _will(self, body: bytes) -> None:
        number, delay, packet = records.read_will(body)
        session = self._session_of(number)
        session.will, session.will_delay = packet, delay

    def _group(self, body: bytes) -> None:
        number, next_delivery, name = records.read_group(body)
        group = self._session_of(number)
        group.next_delivery = max(group.next_delivery, next_delivery)
        group.begun, group.begins_in, group.group = True, self._frame, name

    def _address(self, body: bytes) -> None:
        number, next_delivery, topic = records.read_address(body)
        pages = self._session_of(number)
        pages.next_delivery = max(pages.next_delivery, next_delivery)
        pages.begun, pages.begins_in, pages.topic = True, self._frame, topic

    def _ended(self, body: bytes) -> None:
        number = records.read_ended(body)
        self.last_queue = max(self.last_queue, number)
        self.sessions.pop(number, None)

    def _sent(self, body: bytes) -> None:
        number, ranges = records.read_sent(body)
        inflight = self._session_of(number).inflight
        for first, packet_id, count in ranges:
            for position in range(count):
                inflight[first + position] = packet_id + position

    def _received(self, body: bytes) -> None:
        number, delivery = records.read_received(body)
        session = self._session_of(number)
        if delivery in session.inflight:
            session.received.add(delivery)

    def _done(self, body: bytes) -> None:
        number, ranges = records.read_done(body)
        session = self._session_of(number)
        for first, count in ranges:
            for delivery in range(first, first + count):
                session.remove(delivery)

    def _remembered(self, body: bytes) -> None:
        number, packet_id = records.read_packet_id(body)
        self._session_of(number).remembered[packet_id] = None

    def _forgotten(self, body: bytes) -> None:
        number, packet_id = records.read_packet_id(body)
        self._session_of(number).remembered.pop(packet_id, None)

    def _cleared(self, body: bytes) -> None:
        self.retained.pop(body, None)


def _subscribed(session_of: _Lookup, body: bytes) -> None:
    number, subscription = records.read_subscribed(body)
    session_of(number).subscriptions[subscription.topic_filter] = subscription


def _unsubscribed(session_of: _Lookup, body: bytes) -> None:
    number, topic_filter = records.read_unsubscribed(body)
    session = session_of(number)
    session.subscriptions.pop(topic_filter, None)
    session.owed.pop(topic_filter, None)


def _owed(session_of: _Lookup, body: bytes) -> None:
    number, topic_filter, topic = records.read_owed(body)
    session_of(number).owed[topic_filter] = topic


def _paid(session_of: _Lookup, body: bytes) -> None:
    number, topic_filter = records.read_unsubscribed(body)
    session = session_of(number)
    session.owed.pop(topic_filter, None)
    if not session.owed:
        session.newer.clear()
