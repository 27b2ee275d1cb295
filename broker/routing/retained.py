"""Retained messages: the last one of each topic, by topic name or topic filter [MQTT-3.3.1-5]."""

from collections.abc import Iterator
from typing import final

from broker.routing.router import is_wildcard
from broker.runtime.timers import Timer, Wheel
from broker.storage import records
from broker.storage.journal import Journal
from broker.storage.message import Message
from protocol.publish import Publish


@final
class _Level:
    def __init__(self) -> None:
        self.children: dict[bytes, _Level] = {}
        self.publish: Publish | None = None


@final
class Retained:
    """The retained messages, as a tree of topic levels."""

    def __init__(self, wheel: Wheel, journal: Journal | None = None) -> None:
        self._wheel = wheel
        self._journal = journal
        self._kept: dict[bytes, Message] = {}
        """Those that are in the journal (FC-27), by topic."""
        self._root = _Level()
        self._by_topic: dict[bytes, Publish] = {}
        self._publishers: dict[bytes, str] = {}
        self._expiries: dict[bytes, Expiry] = {}

    def __len__(self) -> int:
        return len(self._by_topic)

    def publisher(self, topic: bytes) -> str:
        """Client id of the publisher of a topic's message; empty if there is none."""
        return self._publishers.get(topic, "")

    def holds(self, publish: Publish) -> bool:
        """Whether `publish` is still the message of its topic."""
        return self._by_topic.get(publish.topic) is publish

    def store(self, publish: Publish, client_id: str) -> None:
        """Retain `publish`; an empty payload removes the topic's retained message [MQTT-3.3.1-6, -7]."""
        if publish.size == 0:
            self.remove(publish.topic)
            return
        if self._journal is not None and not publish.topic.startswith(b"$SYS/"):
            self._keep(publish.topic, self._journal.retain())
        self._store(publish, client_id)

    def restore(self, publish: Publish, client_id: str, message: Message) -> None:
        """Retain a message that is in the journal."""
        self._keep(publish.topic, message)
        self._store(publish, client_id)

    def _keep(self, topic: bytes, message: Message) -> None:
        message.retain()
        older = self._kept.get(topic)
        if older is not None:
            older.replace()
        self._kept[topic] = message

    def _store(self, publish: Publish, client_id: str) -> None:
        level = self._root
        for name in publish.topic.split(b"/"):
            child = level.children.get(name)
            if child is None:
                child = level.children[name] = _Level()
            level = child
        level.publish = publish
        self._by_topic[publish.topic] = publish
        self._publishers[publish.topic] = client_id
        if publish.expires_at and publish.topic not in self._expiries:
            expiry = self._expiries[publish.topic] = Expiry(self, publish.topic)
            self._wheel.add(publish.expires_at, expiry)

    def is_timed_by(self, expiry: "Expiry") -> bool:
        """Whether `expiry` is the current timer of its topic."""
        return self._expiries.get(expiry.topic) is expiry

    def expire(self, expiry: "Expiry", now: int) -> None:
        """Remove the topic's message if it has expired; a newer one may have a later or no expiry."""
        at = self._by_topic[expiry.topic].expires_at
        if at > now:
            self._wheel.add(at, expiry)
        elif at:
            self.remove(expiry.topic)
        else:
            del self._expiries[expiry.topic]

    def remove(self, topic: bytes) -> None:
        """Remove a topic's message; nothing happens if there is none."""
        if self._by_topic.pop(topic, None) is None:
            return
        del self._publishers[topic]
        self._expiries.pop(topic, None)
        message = self._kept.pop(topic, None)
        if message is not None and self._journal is not None:
            message.replace()
            self._journal.write(records.cleared(topic))
        path: list[tuple[_Level, bytes]] = []
        level = self._root
        for name in topic.split(b"/"):
            path.append((level, name))
            level = level.children[name]
        level.publish = None
        for parent, name in reversed(path):
            child = parent.children[name]
            if child.publish is not None or child.children:
                break
            del parent.children[name]

    def matching(self, topic_filter: bytes, now: int) -> list[Publish]:
        """The messages whose topics match the filter. Expired ones are removed and not returned."""
        if is_wildcard(topic_filter):
            found = list(self._walk(self._root, topic_filter.split(b"/"), 0))
        else:
            publish = self._by_topic.get(topic_filter)
            found = [] if publish is None else [publish]
        for publish in found:
            if publish.expires_at and now >= publish.expires_at:
                self.remove(publish.topic)
        return [publish for publish in found if not publish.expires_at or now < publish.expires_at]

    def _walk(self, level: _Level, names: list[bytes], depth: int) -> Iterator[Publish]:
        if depth == len(names):
            if level.publish is not None:
                yield level.publish
            return
        name = names[depth]
        if name == b"#":
            if level.publish is not None:
                yield level.publish
            for child in self._wildcard_children(level, depth):
                yield from self._walk(child, names, depth)
        elif name == b"+":
            for child in self._wildcard_children(level, depth):
                yield from self._walk(child, names, depth + 1)
        else:
            exact = level.children.get(name)
            if exact is not None:
                yield from self._walk(exact, names, depth + 1)

    def _wildcard_children(self, level: _Level, depth: int) -> list[_Level]:
        """Without topics that begin with `$`: a wildcard at the first level does not match them [MQTT-4.7.2-1]."""
        if level is not self._root:
            return list(level.children.values())
        return [child for name, child in level.children.items() if not name.startswith(b"$")]


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
