"""Retained messages: the last one of each topic, by topic name or topic filter [MQTT-3.3.1-5]."""

from collections.abc import Iterator
from typing import final

from mypy_extensions import mypyc_attr

from broker.routing.retained_message import RetainedMessage
from broker.runtime.timers import Timer, Wheel
from broker.storage import records
from broker.storage.journal import Journal
from broker.storage.message import Message
from protocol.publish import Publish


class RetainedPolicy:
    """Decides what may be retained, and counts what is."""

    def admits(self, publish: Publish, older: RetainedMessage | None, client_id: str) -> bool:
        """Whether a message may be retained in place of an older one; `client_id`: of its publisher."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def put(self, message: RetainedMessage) -> None:
        """A message is retained, in place of an older one."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def remove(self, topic: bytes) -> None:
        """The message of a topic is not retained any more."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


@mypyc_attr(acyclic=True)  # levels refer to those below them only
@final
class _Level:
    """What is below some levels that several topics share. A topic that shares no more is there with its message."""

    def __init__(self) -> None:
        self.children: dict[bytes, _Level | RetainedMessage] = {}
        self.message: RetainedMessage | None = None
        """The message of the topic that ends here."""


@final
class Retained:
    """The retained messages, as a tree of the topic levels that tell them apart."""

    def __init__(self, wheel: Wheel, journal: Journal | None = None) -> None:
        self._wheel = wheel
        self._journal = journal
        self._root = _Level()
        self._count = 0
        self._expiries: dict[bytes, Expiry] = {}
        self.guard: RetainedPolicy | None = None
        """None: everything may be retained."""

    def __len__(self) -> int:
        return self._count

    def get(self, topic: bytes) -> RetainedMessage | None:
        """The message of a topic; None if there is none."""
        level = self._root
        for name in topic.split(b"/"):
            child = level.children.get(name)
            if child is None:
                return None
            if isinstance(child, RetainedMessage):
                return child if child.topic == topic else None
            level = child
        return level.message

    def each(self) -> Iterator[RetainedMessage]:
        """All messages in turn, expired ones too; meanwhile others may come, and some of these may be replaced."""
        waiting: list[_Level | RetainedMessage] = [self._root]
        while waiting:
            child = waiting.pop()
            if isinstance(child, RetainedMessage):
                yield child
                continue
            if child.message is not None:
                yield child.message
            waiting.extend(child.children.values())

    def store(self, publish: Publish, client_id: str) -> None:
        """Retain `publish`; an empty payload removes the topic's retained message [MQTT-3.3.1-6, -7].

        What a client publishes is refused before; here the guard decides about wills, and what was parked or paged.
        """
        topic = publish.topic
        if publish.size == 0:
            self.remove(topic)
            return
        guard = self.guard
        if guard is not None and client_id and not guard.admits(publish, self.get(topic), client_id):
            return
        journal = self._journal
        kept = journal.retain() if journal is not None and not topic.startswith(b"$SYS/") else None
        self._store(RetainedMessage(publish, client_id, kept))

    def restore(self, publish: Publish, client_id: str, message: Message) -> None:
        """Retain a message that is in the journal."""
        self._store(RetainedMessage(publish, client_id, message))

    def _store(self, message: RetainedMessage) -> None:
        topic = message.topic
        if message.message is not None:
            message.message.retain()
        older = self._put(topic, message)
        if older is None:
            self._count += 1
        else:
            older.current = False
            if older.message is not None:
                older.message.replace()
        if self.guard is not None and message.client_id:
            self.guard.put(message)
        if message.expires_at and topic not in self._expiries:
            expiry = self._expiries[topic] = Expiry(self, topic)
            self._wheel.add(message.expires_at, expiry)

    def _put(self, topic: bytes, message: RetainedMessage) -> RetainedMessage | None:
        """Put a message into the tree; returns the one that it replaces."""
        level = self._root
        for depth, name in enumerate(topic.split(b"/"), 1):
            child = level.children.get(name)
            if child is None:
                level.children[name] = message
                return None
            if isinstance(child, RetainedMessage):
                if child.topic == topic:
                    level.children[name] = message
                    return child
                below = level.children[name] = _level_of(child, depth)
                level = below
            else:
                level = child
        older = level.message
        level.message = message
        return older

    def is_timed_by(self, expiry: "Expiry") -> bool:
        """Whether `expiry` is the current timer of its topic."""
        return self._expiries.get(expiry.topic) is expiry

    def expire(self, expiry: "Expiry", now: int) -> None:
        """Remove the topic's message if it has expired; a newer one may have a later or no expiry."""
        message = self.get(expiry.topic)
        at = 0 if message is None else message.expires_at
        if at > now:
            self._wheel.add(at, expiry)
        elif at:
            self.remove(expiry.topic)
        else:
            del self._expiries[expiry.topic]

    def remove(self, topic: bytes) -> None:
        """Remove a topic's message; nothing happens if there is none."""
        older = self._take(topic)
        if older is None:
            return
        older.current = False
        self._count -= 1
        if self.guard is not None:
            self.guard.remove(topic)
        self._expiries.pop(topic, None)
        if older.message is not None and self._journal is not None:
            older.message.replace()
            self._journal.write(records.cleared(topic))

    def _take(self, topic: bytes) -> RetainedMessage | None:
        """Remove and return a topic's message, with the levels that only it used; None if there is none."""
        path: list[tuple[_Level, bytes]] = []
        level = self._root
        older: RetainedMessage | None = None
        for name in topic.split(b"/"):
            child = level.children.get(name)
            if child is None:
                return None
            if isinstance(child, RetainedMessage):
                if child.topic != topic:
                    return None
                older = child
                del level.children[name]
                break
            path.append((level, name))
            level = child
        else:
            older = level.message
            level.message = None
        for parent, name in reversed(path):
            if level.children or level.message is not None:
                break
            del parent.children[name]
            level = parent
        return older

    def matching(self, topic_filter: bytes, now: int) -> list[RetainedMessage]:
        """The messages whose topics match the filter. Expired ones are removed and not returned."""
        found: list[RetainedMessage] = []
        _find(self._root, topic_filter.split(b"/"), 0, found)
        if not self._expiries:
            return found
        expired = [message for message in found if message.has_expired(now)]
        for message in expired:
            self.remove(message.topic)
        return [message for message in found if message.current] if expired else found


def _level_of(message: RetainedMessage, depth: int) -> _Level:
    """A level below the first `depth` ones of a message's topic, with this message."""
    level = _Level()
    names = message.topic.split(b"/")
    if len(names) == depth:
        level.message = message
    else:
        level.children[names[depth]] = message
    return level


def _find(level: _Level, names: list[bytes], depth: int, found: list[RetainedMessage]) -> None:
    """Append the messages at and below a level whose topics match the filter `names` from `depth` on."""
    if depth == len(names):
        if level.message is not None:
            found.append(level.message)
        return
    name = names[depth]
    if name == b"#":
        if level.message is not None:
            found.append(level.message)
        for child in _children(level, depth):
            _append(child, found)
    elif name == b"+":
        for child in _children(level, depth):
            _find_below(child, names, depth + 1, found)
    else:
        exact = level.children.get(name)
        if exact is not None:
            _find_below(exact, names, depth + 1, found)


def _find_below(child: _Level | RetainedMessage, names: list[bytes], depth: int, found: list[RetainedMessage]) -> None:
    if isinstance(child, _Level):
        _find(child, names, depth, found)
    elif _rest_matches(child.topic, names, depth):
        found.append(child)


def _append(child: _Level | RetainedMessage, found: list[RetainedMessage]) -> None:
    """Append all messages of a child."""
    if isinstance(child, RetainedMessage):
        found.append(child)
        return
    if child.message is not None:
        found.append(child.message)
    for below in child.children.values():
        _append(below, found)


def _children(level: _Level, depth: int) -> list[_Level | RetainedMessage]:
    """Without topics that begin with `$`: a wildcard at the first level does not match them [MQTT-4.7.2-1]."""
    if depth:
        return list(level.children.values())
    return [child for name, child in level.children.items() if not name.startswith(b"$")]


def _rest_matches(topic: bytes, names: list[bytes], depth: int) -> bool:
    """Whether a topic, of which the first `depth` levels match the filter `names`, matches it as a whole."""
    levels = topic.split(b"/")
    for number in range(depth, len(names)):
        name = names[number]
        if name == b"#":
            return True  # it also matches the level above it (section 4.7.1.2)
        if number == len(levels) or (name != b"+" and name != levels[number]):
            return False
    return len(levels) == len(names)


@final
class Expiry(Timer):
    """Removes a topic's retained message when it has expired, even if no client subscribes to it."""

    def __init__(self, retained: Retained, topic: bytes) -> None:
        self.topic = topic
        self._retained = retained

    def wanted(self) -> bool:
        """False if the topic has no message any more, or a new timer."""
        return self._retained.is_timed_by(self)

    def due(self, now: int) -> None:
        """Remove the topic's message if it has expired."""
        if self.wanted():
            self._retained.expire(self, now)
