"""What a drop event says, and where it is published (FC-35)."""

import json
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

from broker.runtime.clock import SECOND
from config.drop_events import DropEvents
from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from session.drops import PUBLISHER_REASONS
from session.flows import EVENT

PREFIX: Final = "sluice-"
"""Of the user properties of an event: a dead letter has those of its message too."""
SEVERAL: Final = "%"
"""In place of a client, reason or topic where a message tells of several. No name is escaped to it."""
MOST_TOPIC: Final = 65_535

_ESCAPED: Final = str.maketrans({character: f"%{ord(character):02X}" for character in "%/+#"})
_KEPT: Final = (
    props.PAYLOAD_FORMAT_INDICATOR,
    props.CONTENT_TYPE,
    props.RESPONSE_TOPIC,
    props.CORRELATION_DATA,
)
"""Properties of the message that a dead letter has too. Its expiry is told only: a dead letter does not expire."""


class Loser(NamedTuple):
    """Who has lost deliveries: a client, or a group; with an empty name, several of them."""

    name: str
    is_group: bool = False


class Lost(NamedTuple):
    """One delivery that was dropped."""

    reason: str
    publish: Publish


def event(
    settings: DropEvents, loser: Loser, lost: Lost | None, summed: dict[str, int], wall_offset: int, levels: int
) -> Publish:
    """The message about a drop, and about the number of others by reason, which are not told singly.

    `wall_offset`: of the time of day, to the monotonic clock; `levels`: the most that a topic may have.
    """
    facts = _facts(loser, lost, wall_offset)
    properties: Properties = {}
    payload = b""
    if settings.payload == "none":
        payload = json.dumps(facts | ({"summed": summed} if summed else {}), ensure_ascii=False).encode()
        properties = {props.PAYLOAD_FORMAT_INDICATOR: 1, props.CONTENT_TYPE: "application/json"}
    elif lost is not None:
        payload = lost.publish.payload
        own = lost.publish.properties or {}
        properties = {key: own[key] for key in _KEPT if key in own}
    told = _pairs_of(lost) if settings.payload == "copy" else []
    told += [(PREFIX + name.replace("_", "-"), _text(value)) for name, value in facts.items()]
    told += [(f"{PREFIX}summed-{reason}", str(count)) for reason, count in summed.items()]
    properties[props.USER_PROPERTY] = told
    qos = 1 if lost is None else min(lost.publish.qos, 1)
    made = Publish(_topic(settings.topic, loser, lost, levels), payload, qos, False, properties)
    made.flow = EVENT
    return made


def _facts(loser: Loser, lost: Lost | None, wall_offset: int) -> dict[str, str | int | bool]:
    reason = "summed" if lost is None else lost.reason
    facts: dict[str, str | int | bool] = {"reason": reason}
    if loser.name:
        role = "publisher" if reason in PUBLISHER_REASONS else "group" if loser.is_group else "client_id"
        facts[role] = loser.name
    if lost is not None:
        publish = lost.publish
        facts |= {"topic": publish.topic.decode(), "qos": publish.qos, "retain": publish.retain, "size": publish.size}
        facts["received"] = _time(publish.received_at + wall_offset)
        if publish.expires_at:
            facts["expires"] = _time(publish.expires_at + wall_offset)
    return facts


def _time(microseconds: int) -> str:
    """A time of day, since 1970, as people and programs read it."""
    return datetime.fromtimestamp(microseconds / SECOND, UTC).isoformat(timespec="milliseconds")


def _text(value: str | int | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _pairs_of(lost: Lost | None) -> list[tuple[str, str]]:
    """The user properties of a message, but for those that its publisher might have us say."""
    if lost is None or not lost.publish.properties:
        return []
    pairs = cast("list[tuple[str, str]]", lost.publish.properties.get(props.USER_PROPERTY, []))
    return [(name, value) for name, value in pairs if not name.startswith(PREFIX)]


def _topic(template: str, loser: Loser, lost: Lost | None, levels: int) -> bytes:
    """The topic of an event. Where it would be too long or too deep, it says SEVERAL."""
    name = loser.name.translate(_ESCAPED) or SEVERAL
    topic = _filled(template, name, lost.reason, lost.publish.topic.decode()) if lost is not None else ""
    if not topic or len(topic.encode()) > MOST_TOPIC or topic.count("/") >= levels:
        reason = SEVERAL if lost is None else lost.reason
        topic = _filled(template, name, reason, SEVERAL)
        if len(topic.encode()) > MOST_TOPIC:
            topic = _filled(template, SEVERAL, reason, SEVERAL)
    return topic.encode()


def _filled(template: str, client_id: str, reason: str, topic: str) -> str:
    """The template with its placeholders replaced, at once: what replaces one may look like another."""
    pieces = {"client_id": client_id, "reason": reason, "topic": topic}
    return template.format(**pieces)
