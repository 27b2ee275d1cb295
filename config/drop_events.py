"""The section `drop_events`: who is told of each delivery that is dropped (FC-35)."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator

from config.rules import BrokenRule
from config.units import found
from config.value_types import Model, Rate, Text

_PLACEHOLDERS: Final = re.compile(r"\{(?:client_id|reason|topic)\}")


def _check_topic(value: str) -> str:
    """Refuse what is no topic, or could become any topic: the first level says what the messages are."""
    levels = value.split("/")
    rest = _PLACEHOLDERS.sub("", value)
    if any(character in rest for character in "+#{}") or _PLACEHOLDERS.search(levels[0]):
        raise ValueError(
            f"found {found(value)}: write a topic such as $SYS/broker/dropped/{{client_id}} or dead/{{topic}}, "
            "without + and #, without other braces, and without braces in its first level"
        )
    if levels[0] == "$share":
        raise ValueError(f"found {found(value)}: write a topic that does not begin with $share")
    return value


def broken(topic: str | None, most_levels: int | None) -> list[BrokenRule]:
    """Whether no client could subscribe to the topic, whatever is filled in; None = a value that cannot be parsed."""
    if topic is None or most_levels is None or (levels := topic.count("/") + 1) <= most_levels:
        return []
    message = (
        f"found {found(topic)} with {levels:,} levels: write one with at most {most_levels:,}, which is "
        "mqtt.max_topic_levels, or raise that"
    )
    return [BrokenRule(("drop_events", "topic"), message)]


def _per_second(value: object) -> object:
    """A rate may say that it is a second's."""
    return value.strip().removesuffix("/s") if isinstance(value, str) else value


class DropEvents(Model):
    """FC-35: a message for each delivery that is dropped."""

    topic: Annotated[Text, AfterValidator(_check_topic)] = "$SYS/broker/dropped/{client_id}"
    """FC-35: where the messages are published; {client_id}, {reason} and {topic} are those of the drop."""
    payload: Literal["none", "copy"] = "none"
    """FC-35: none = what has happened, as JSON; copy = the payload of the dropped message."""
    max_rate: Annotated[Rate, BeforeValidator(_per_second)] = 10
    """FC-35: messages a second; what exceeds them is summed up. 0 = no limit."""
