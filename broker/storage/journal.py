"""The journal: writes the records of messages, kept sessions and groups (FC-27)."""

from collections.abc import Callable
from typing import final

from broker.runtime.clock import SECOND
from broker.storage import message_record, records
from broker.storage.commits import Commits
from broker.storage.deliveries import Deliveries
from broker.storage.frame import padded
from broker.storage.index import Entry
from broker.storage.lane_rule import LaneRule
from broker.storage.message import Frame, Memory, Message
from broker.storage.reader import Reader
from broker.storage.saved import Saved
from broker.storage.times import Times
from protocol import properties as props
from protocol.publish import Publish
from session.journal import QueueJournal


@final
class Journal:
    """Writes records, and keeps track of what each frame contains.

    A method that writes returns the number of the commit that puts it on disk; 0 = no packet has to wait for it.
    """

    def __init__(self, commits: Commits, memory: int = 0) -> None:
        """`memory`: bytes of waiting deliveries that may be in memory; 0 = any number (FC-30)."""
        self.commits = commits
        self.reader: Reader | None = None
        """Reads messages back; None = there is no file to read."""
        self.memory = Memory(memory)
        self.lanes = LaneRule()
        """In which lanes of their queues deliveries wait; to be set before anything is read."""
        self.tell_drops: Callable[[], None] | None = None
        """FC-35: publishes the events of what has been dropped; None = nobody is told, and nothing is read for it."""
        commits.before_commit = self._finish_frame
        self.frames: dict[int, Frame] = {}
        self.queues: dict[int, QueueJournal] = {}
        """Of the sessions and groups that are kept, by number."""
        self._next_queue = 1
        self._frame: Frame | None = None
        self.state_size = 0
        """Bytes of the state of all sessions and groups, as it was last written."""
        self._changed: list[Deliveries] = []
        self.times = Times()
        # The message that is being routed.
        self._publish: Publish | None = None
        self._publisher = ""
        self._targets: list[bytes] = []
        self._message: Message | None = None
        self._retained = False
        self._alone: list[tuple[Publish, Message, list[bytes]]] = []
        """Other messages that come after it, and their deliveries."""
        self._after_message: list[bytes] = []
        """Records that come after the messages."""
        self.needed = False
        """Whether a packet has to wait for the commit: what was routed last has been written."""

    def begin_after(self, saved: Saved) -> None:
        """Continue after what is in the file."""
        self.frames = saved.frames
        self.times.begin_after(saved.steps)
        self.commits.begin_after(saved.last_frame, sum([each.size for each in saved.frames.values()]))
        self._next_queue = saved.last_queue + 1

    # -- messages

    def begin(self, publish: Publish, publisher: str) -> None:
        """A message is about to be routed; `publisher` is its client id."""
        self._bound_frame()
        if publish.qos:
            publish.trim()  # what waits keeps its payload, once
        self._publish = publish
        self._publisher = publisher
        self.needed = False

    def target(self, publish: Publish, target: bytes) -> Message:
        """Write a delivery of the message that is being routed, or of another one, which is then written alone."""
        if self._publish is None or not publish.is_copy_of(self._publish):
            return self._write_alone(publish, target)
        self._targets.append(target)
        return self._new_message()

    def _write_alone(self, publish: Publish, target: bytes) -> Message:
        """A message that a group hands to a member, or a retained one for a new subscription."""
        if self._publish is None:
            self._bound_frame()
        message = self._begin_message()
        targets = [target]
        if self._publish is None:
            self._write(publish, message, False, "", targets)
        else:
            self._alone.append((publish, message, targets))
        self.commits.later()
        return message

    def retain(self) -> Message:
        """The message that is being routed becomes its topic's retained message."""
        self._retained = True
        return self._new_message()

    def end(self) -> int:
        """The message has been routed. Returns the commit that has to precede its acknowledgement; 0 = none."""
        publish = self._publish
        message = self._message
        self._publish = None
        if publish is not None and message is not None:
            self._write(publish, message, self._retained, self._publisher, self._targets)
            self.needed = True
            self._message = None
            self._targets = []
            self._retained = False
        if self._alone:
            for publish, message, targets in self._alone:
                self._bound_frame()
                message.place(self.frame(), self.commits.position())
                self._write(publish, message, False, "", targets)
            self._alone = []
        if self._after_message:
            for record in self._after_message:
                self._add_record(record)
            self._after_message = []
        return self.commits.soon() if self.needed else 0

    def page(self, publish: Publish, publisher: str, queue: int, delivery: int, room: int) -> Entry | None:
        """Write a PUBLISH that waits on disk for room in its address (FC-26). Not between `begin` and `end`.

        Returns where it is; None = its record takes more than `room` bytes, and is not written.
        """
        self._bound_frame()
        frame = self.frame()
        expires_at = publish.expires_at + self.times.offset if publish.expires_at else 0
        pieces: list[bytes] = []
        target = message_record.target(queue, delivery, publish)
        size = message_record.encode(pieces, publish, expires_at, False, publisher, [target])
        if size > room:
            return None
        entry = Entry(delivery, frame.number, self.commits.position(), size, 1, 0)
        for piece in pieces:
            self.commits.add(piece)
        return entry

    def _write(self, publish: Publish, message: Message, retained: bool, publisher: str, targets: list[bytes]) -> None:
        expires_at = publish.expires_at + self.times.offset if publish.expires_at else 0
        commits = self.commits
        who = publisher if retained else ""
        size = message_record.encode(commits.pieces, publish, expires_at, retained, who, targets)
        commits.count(size)
        message.written(size)

    def _new_message(self) -> Message:
        message = self._message
        if message is None:
            message = self._message = self._begin_message()
        return message

    def _begin_message(self) -> Message:
        """Return a new message; its record is written next."""
        return Message(self.frame(), self.commits.position(), self.memory)

    def move(self, messages: list[Message], record: bytes) -> int:
        """Write a message again, whose frame is going to be removed; `messages`: it, where it is in memory.

        Returns where it is in the current frame.
        """
        self._bound_frame()
        offset = self.commits.position()
        self.commits.add(record)
        for message in messages:
            message.move(self.frame(), offset, len(record))
        return offset

    def restore_expiry(self, publish: Publish, at: int, frame: int, position: int, since: int) -> None:
        """Set when a PUBLISH expires whose record is there and has the time `at`, 0 = never.

        That is at most its interval after `since`, when it was received or the broker has started, 0 = unknown: the
        wall clock may be behind what it was.
        """
        if not at:
            return
        expires_at = self.times.by_the_clock_now(at, frame, position) - self.times.offset
        interval = publish.properties.get(props.MESSAGE_EXPIRY_INTERVAL) if publish.properties is not None else None
        if since and isinstance(interval, int):
            expires_at = min(expires_at, since + interval * SECOND)
        publish.expires_at = max(expires_at, 1)

    def live_bytes(self) -> int:
        """Bytes of the journal that compaction would keep."""
        return sum(each.live_bytes() for each in self.frames.values()) + self.state_size

    def look_at_clock(self) -> None:
        """Write it if the wall clock has been set. Not between `begin` and `end`, but for the first record of a frame.

        FC-27: called before that record, ten times a second, and at the end: times on disk are by the clock then.
        """
        step = self.times.take_step()
        if step:
            self.times.note(self.commits.number, self.commits.position(), step)
            self.commits.add(records.clock(step))
            self.commits.later()

    # -- other records

    def write(self, record: bytes) -> int:
        """Write a record. Returns its commit, which begins as soon as possible."""
        self._add(record)
        self.needed = True
        return self.commits.soon()

    def write_lazily(self, record: bytes) -> None:
        """Write a record that no packet waits for."""
        self._add(record)
        self.commits.later()

    def _add(self, record: bytes) -> None:
        if self._publish is None:
            self._add_record(record)
        else:
            self._after_message.append(record)  # it may be about a delivery of the message

    def _add_record(self, record: bytes) -> None:
        self._bound_frame()
        self.commits.add(record)

    def note(self, deliveries: Deliveries, needed: bool = False) -> int:
        """Deliveries of a session are sent or done: the next commit records which.

        Returns that commit if it is `needed`: a packet has to wait for it.
        """
        if deliveries.noted and not deliveries.listed:
            deliveries.listed = True
            self._changed.append(deliveries)
            self.commits.later()
        return self.commits.soon() if needed else 0

    # -- frames, sessions and groups

    def new_queue(self) -> int:
        """Return the number of a new kept session or group."""
        number = self._next_queue
        self._next_queue += 1
        return number

    def frame(self) -> Frame:
        """The frame that is being filled."""
        current = self._frame
        if current is None:
            self.look_at_clock()
            number = self.commits.number
            current = self._frame = self.frames[number] = Frame(number)
        return current

    def _bound_frame(self) -> None:
        """Another record comes, and the place of none has been given away: what follows a long frame is in a new one.

        So no frame has more than MOST_WAITING bytes and one record: compaction has a whole one in memory.
        """
        commits = self.commits
        if commits.position() > commits.most_waiting:
            self._end_frame()
            commits.end_frame()

    def _end_frame(self) -> None:
        frame = self.frame()  # it may add a record
        frame.size = padded(self.commits.position())
        self._frame = None

    def _finish_frame(self) -> None:
        """A commit begins: add the records of what is sent and done to its last frame."""
        commits = self.commits
        if self.tell_drops is not None:
            self.tell_drops()  # after a crash what is dropped is there again, or its event is
        for deliveries in self._changed:
            deliveries.listed = False
            for record in deliveries.take_records():
                self._add_record(record)
        self._changed = []
        if commits.pieces:
            self._end_frame()
        self._frame = None
