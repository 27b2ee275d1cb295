"""Topics of EMQX's MQTT bridges: of templates and of the rule engine's SQL what is a plain mapping of topics."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from config.emqx.reading import Setting
from config.imported.draft import Section

TEMPLATE: Final = (
    "taken over is ${topic}, also with a text before it, or one topic to one topic: write bridges[].topics for it"
)
PAYLOAD: Final = "a bridge sends payloads as they are: only payload = ${payload} is taken over"
QOS: Final = "only a number or ${qos} is taken over"
SQL: Final = 'only SELECT * FROM "filter" is taken over: a bridge has no rule engine'
KEEPS_RETAIN: Final = "a bridge keeps RETAIN as it is (retain = ${retain})"
KEEPS_QOS: Final = "a bridge keeps the QoS of a message, up to this"
NO_GROUP: Final = "one bridge needs no shared subscription: the filter is taken without its group"

AS_IT_IS: Final = "as a bridge does it"
DEFAULT: Final = "EMQX's default"

_TOPIC: Final = "${topic}"
_SELECT: Final = re.compile(r"\s*SELECT\s+\*\s+FROM\s+(\"[^\"]+\"(?:\s*,\s*\"[^\"]+\")*)\s*;?\s*", re.IGNORECASE)
_GROUP: Final = re.compile(r"\$share/[^/]+/")


Item = dict[str, Setting]
"""Settings under one name, by the rest of their names."""


def text(item: Item, name: str, default: str = "") -> str:
    """The value of a setting."""
    return item[name].value if name in item else default


def filters(sql: str) -> list[str]:
    """The topic filters of a rule that does nothing else than to select them; empty if it does more."""
    match = _SELECT.fullmatch(sql)
    return [] if match is None else [each.strip().strip('"') for each in match[1].split(",")]


@dataclass(frozen=True)
class Target:
    """What an item says about the messages that it publishes: below a name, with what EMQX has by default."""

    item: Item
    below: str
    qos: str
    retain: str
    payload: str
    sources: Sequence[Setting] = ()
    """Other settings for which it publishes them."""

    def setting(self, name: str) -> Setting | None:
        """A setting."""
        return self.item.get(f"{self.below}{name}")

    def text(self, name: str) -> str:
        """The value of a setting."""
        defaults = {"qos": self.qos, "retain": self.retain, "payload": self.payload}
        return text(self.item, f"{self.below}{name}", defaults.get(name, ""))

    @property
    def wrong(self) -> str:
        """Why it is no plain copy; empty if it is."""
        if self.text("payload") != "${payload}":
            return PAYLOAD
        return "" if self.text("qos") in ("${qos}", "0", "1", "2") else QOS

    @property
    def most(self) -> int:
        """The highest QoS that messages are published with."""
        return 2 if self.text("qos") == "${qos}" else int(self.text("qos"))


def topic(direction: str, given: str, target: Target, most: int = 2, *sources: Setting) -> Section | str:
    """One entry of `topics`, or why there is none.

    `given`: the filter of what is taken; `most`: the highest QoS of that; `sources`: the settings that say so.
    """
    if target.wrong:
        return target.wrong
    template, section = target.text("topic"), Section()
    plain = _GROUP.sub("", given, count=1) if given.startswith("$share/") else given
    before = template.removesuffix(_TOPIC)
    source, to = ("local_prefix", "remote_prefix") if direction == "out" else ("remote_prefix", "local_prefix")
    if template.endswith(_TOPIC) and "${" not in before:
        section.put("filter", plain)
    elif template and "${" not in template and not {"+", "#"} & set(plain):
        section.put(source, plain)
        before = template
    else:
        return TEMPLATE
    section.put("direction", direction)
    section.put("qos", min(most, target.most))
    if before:
        section.put(to, before)
    said = [each for name in ("topic", "qos") if (each := target.setting(name)) is not None]
    first = next(iter(section.keys))
    section.put(first, section.get(first), *sources, *target.sources, *said)
    for name, why in (("retain", KEEPS_RETAIN), ("qos", KEEPS_QOS)):
        if target.text(name) != f"${{{name}}}":
            section.remarks.append(f"{target.setting(name) or DEFAULT}: {why}")
    section.remarks += [
        f"{setting}: {AS_IT_IS}"
        for name in ("payload", "retain")
        if (setting := target.setting(name)) is not None and target.text(name) == f"${{{name}}}"
    ]
    if plain != given:
        section.remarks.append(NO_GROUP)
    return section
