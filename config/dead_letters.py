"""What to mind of `drop_events` with `payload: copy`: who may read the copies, and which drops have none (FC-35)."""

import re
from typing import Final

from config.models import Config
from config.rule import Rule

_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}")
_CONDITIONS: Final = ("users", "roles", "client_ids", "addresses", "listeners", "qos")


def dead_letter_warnings(config: Config) -> list[str]:
    """What is probably not meant."""
    events = config.drop_events
    if events is None or events.payload != "copy":
        return []
    found: list[str] = []
    if _anybody_may_read(config, _PLACEHOLDER.sub("x", events.topic).split("/")):
        found.append(
            f"drop_events.topic: anybody may read {events.topic}, and with payload: copy the messages of all topics "
            "there: write a rule about it in authorization.rules"
        )
    if events.max_rate:
        found.append(
            f"drop_events.max_rate: what exceeds {events.max_rate} a second is counted, not copied: write infinity to "
            "have each message"
        )
    return found


def _anybody_may_read(config: Config, topic: list[str]) -> bool:
    """Whether that is certain: rules of files and plugins, which are not known here, come last."""
    own = config.authorization
    if any(_matches(denied.split("/"), topic) for denied in own.deny_subscribe):
        return False
    for rule in own.rules:
        if rule.action != "publish" and any(_matches(each.split("/"), topic) for each in rule.topics):
            if rule.permit == "deny" and _is_for_all(rule):
                return False
            if rule.permit == "allow" and _is_for_all(rule):
                return True
    if own.rules_file is not None or own.acl_file is not None or own.plugins:
        return False
    return own.default == "allow" or (own.default is None and not (own.rules and config.denies_by_default))


def _is_for_all(rule: Rule) -> bool:
    return not any(getattr(rule, name) for name in _CONDITIONS)


def _matches(topic_filter: list[str], topic: list[str]) -> bool:
    """Section 4.7."""
    if topic[0].startswith("$") and topic_filter[0] in ("+", "#"):
        return False
    if topic_filter[-1] == "#":
        topic_filter = topic_filter[:-1]
        topic = topic[: len(topic_filter)]
    return len(topic_filter) == len(topic) and all(
        own in ("+", level) for own, level in zip(topic_filter, topic, strict=True)
    )
