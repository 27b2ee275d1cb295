"""Reads a journal: its frames, in order, give the state that has to be restored (FC-27)."""

import struct
from collections.abc import Callable
from typing import final

from broker.storage import frame, records
from broker.storage.message import Frame, Message
from broker.storage.records import DamagedError, SavedMessage, Target
from protocol.decoder import Decoder
from protocol.errors import MQTTError
from protocol.publish import Publish
from protocol.subscribe import Subscription


@final
class SavedDelivery:
    """One delivery that is not done."""

    def __init__(self, message: "StoredMessage", target: Target) -> None:
        self.message = message
        self.target = target


@final
class StoredMessage:
    """A message, and where it is in the journal."""

    def __init__(self, saved: SavedMessage, message: Message) -> None:
        self.saved = saved
        self.message = message

    def publish(self, decoder: Decoder) -> Publish:
        """The message itself. Raises DamagedError."""
        return decode(self.saved.packet, decoder)


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


@final
class SavedSession:
    """A kept session, or the queue of a group. Its deliveries may be in earlier frames than SESSION or GROUP."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.begun = False
        """Whether SESSION or GROUP has been read."""
        self.begins_in: Frame | None = None
        """The frame with the last SESSION or GROUP."""
        self.client_id = ""
        self.group = ""
        """`$share/group/filter` if it is the queue of a shared subscription; else empty."""
        self.will: bytes = b""
        """The PUBLISH of its will, if that is still to be published."""
        self.will_delay = 0
        """Seconds."""
        self.version = 0
        self.expiry = 0
        self.detached_at = 0
        """Microseconds since 1970 UTC; 0 = its client was connected when the broker ended."""
        self.next_delivery = 0
        self.subscriptions: dict[str, Subscription] = {}
        self.deliveries: dict[int, SavedDelivery] = {}
        """By number. A message may be in a later frame than the other records of its deliveries."""
        self.inflight: dict[int, int] = {}
        """Packet ids of deliveries that have been sent, in that order."""
        self.received: set[int] = set()
        """Deliveries whose PUBREC has come."""
        self.remembered: dict[int, None] = {}
        """Packet ids of the client that wait for PUBREL, oldest first."""

    def remove(self, delivery: int) -> None:
        """A delivery is done."""
        self.deliveries.pop(delivery, None)
        self.inflight.pop(delivery, None)
        self.received.discard(delivery)


@final
class Saved:
    """All that has to be restored."""

    def __init__(self) -> None:
        self.sessions: dict[int, SavedSession] = {}
        self.retained: dict[bytes, StoredMessage] = {}
        self.frames: dict[int, Frame] = {}
        self.last_frame = 0
        self.last_message = 0
        self.last_queue = 0
        self._decoder = Decoder(version=5)
        self._frame = Frame(0)
        self._handlers: dict[int, Callable[[bytes], None]] = {
            records.SESSION: self._session,
            records.CONNECTED: self._connected,
            records.DETACHED: self._detached,
            records.ENDED: self._ended,
            records.SUBSCRIBED: self._subscribed,
            records.UNSUBSCRIBED: self._unsubscribed,
            records.SENT: self._sent,
            records.RECEIVED: self._received,
            records.DONE: self._done,
            records.REMEMBERED: self._remembered,
            records.FORGOTTEN: self._forgotten,
            records.CLEARED: self._cleared,
            records.GROUP: self._group,
            records.WILL: self._will,
        }

    def read(self, number: int, content: bytes) -> None:
        """Read the next frame. Raises DamagedError, with the frame's number."""
        try:
            frame.check(content, number)
            self.last_frame = number
            own = self.frames[number] = self._frame = Frame(number)
            own.size = len(content)
            for kind, body in records.each(content, frame.HEAD_SIZE):
                if kind == records.MESSAGE:
                    self._message(body, own)
                elif kind in self._handlers:
                    self._handlers[kind](body)
                else:
                    raise DamagedError(f"a record of the unknown kind {kind}")
        except (DamagedError, struct.error, UnicodeDecodeError, KeyError) as error:
            raise DamagedError(f"frame {number}: {error}") from error

    def _session_of(self, number: int) -> SavedSession:
        session = self.sessions.get(number)
        if session is None:
            session = self.sessions[number] = SavedSession(number)
            self.last_queue = max(self.last_queue, number)
        return session

    def live_bytes(self) -> int:
        """Bytes of the messages that a session, group or topic still needs."""
        needed = {record.saved.number: record for record in self.retained.values()}
        for session in self.sessions.values():
            needed |= {each.message.saved.number: each.message for each in session.deliveries.values()}
        return sum(len(record.saved.packet) for record in needed.values())

    def finish(self) -> None:
        """All frames have been read: remove sessions that have ended, of which only late records were found."""
        self.sessions = {number: session for number, session in self.sessions.items() if session.begun}

    def _message(self, body: bytes, own: Frame) -> None:
        saved = records.read_message(body)
        message = Message(saved.number, own)
        message.written(len(body) + records.HEAD_SIZE)
        record = StoredMessage(saved, message)
        self.last_message = max(self.last_message, saved.number)
        for target in saved.targets:
            session = self._session_of(target.session)
            session.next_delivery = max(session.next_delivery, target.delivery + 1)
            session.deliveries[target.delivery] = SavedDelivery(record, target)
        if saved.retained:
            self.retained[record.publish(self._decoder).topic] = record

    def _session(self, body: bytes) -> None:
        number, version, expiry, next_delivery, client_id = records.read_session(body)
        session = self._session_of(number)
        session.begun, session.begins_in, session.will = True, self._frame, b""
        session.client_id, session.version, session.expiry, session.detached_at = client_id, version, expiry, 0
        session.next_delivery = max(session.next_delivery, next_delivery)
        session.subscriptions.clear()
        session.remembered.clear()
        session.inflight.clear()
        session.received.clear()

    def _connected(self, body: bytes) -> None:
        number, version, expiry = records.read_connected(body)
        session = self._session_of(number)
        session.version, session.expiry, session.detached_at, session.will = version, expiry, 0, b""

    def _detached(self, body: bytes) -> None:
        number, at, expiry, has_will = records.read_detached(body)
        session = self._session_of(number)
        session.detached_at, session.expiry = at, expiry
        if not has_will:
            session.will = b""

    def _will(self, body: bytes) -> None:
        number, delay, packet = records.read_will(body)
        session = self._session_of(number)
        session.will, session.will_delay = packet, delay

    def _group(self, body: bytes) -> None:
        number, next_delivery, name = records.read_group(body)
        group = self._session_of(number)
        group.next_delivery = max(group.next_delivery, next_delivery)
        group.begun, group.begins_in, group.group = True, self._frame, name

    def _ended(self, body: bytes) -> None:
        number = records.read_ended(body)
        self.last_queue = max(self.last_queue, number)
        self.sessions.pop(number, None)

    def _subscribed(self, body: bytes) -> None:
        number, subscription = records.read_subscribed(body)
        self._session_of(number).subscriptions[subscription.topic_filter] = subscription

    def _unsubscribed(self, body: bytes) -> None:
        number, topic_filter = records.read_unsubscribed(body)
        self._session_of(number).subscriptions.pop(topic_filter, None)

    def _sent(self, body: bytes) -> None:
        number, delivery, packet_id = records.read_sent(body)
        self._session_of(number).inflight[delivery] = packet_id

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
