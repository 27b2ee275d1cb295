"""Bridges of another broker: their names here, what of them would be refused, and the rules that they need."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from config.bridge import CLIENT_ID
from config.imported.draft import Section, Value
from config.layers import dotted
from config.value_types import WRITTEN, Model

_LONGEST: Final = 50
_RULE: Final = "no rule of the other broker is about its bridges"
_BRACES: Final = "a rule cannot name topics with braces: allow what goes over {name} by a rule with wildcards"
_WAYS: Final = {"subscribe": ("out", "both"), "publish": ("in", "both")}


def free_name(text: str, taken: set[str]) -> str:
    """A name like this, of characters that names have; it is not in `taken`, which then has it."""
    first = re.sub(r"[^A-Za-z0-9._-]", "-", text).lstrip("._-")[:_LONGEST] or "bridge"
    name, number = first, 2
    while name in taken:
        name, number = f"{first}-{number}", number + 1
    taken.add(name)
    return name


def password_path(beside: Path, name: str) -> Path:
    """Where the password of a bridge is written."""
    return beside.with_name(f"bridge-{name}.password")


def refusal(model: type[Model], section: Section) -> str:
    """Why a section cannot be one of this model; empty if it can."""
    try:
        model.model_validate(_plain(section), context={WRITTEN: True})
    except ValidationError as error:
        told = error.errors(include_url=False, include_input=False)
        return "; ".join(
            ": ".join(filter(None, (dotted(each["loc"]), each["msg"].removeprefix("Value error, ")))) for each in told
        )
    return ""


def allow(authorization: Section, bridges: Sequence[Section]) -> None:
    """Allow bridges what goes over them, and nothing else, where rules would forbid it."""
    rules = authorization.keys.get("rules", [])
    if not rules and "acl_file" not in authorization.keys and authorization.get("default") != "deny":
        return
    assert isinstance(rules, list)  # nothing else is put there
    authorization.keys["rules"] = [*(rule for bridge in bridges for rule in _rules(bridge, authorization)), *rules]
    if not authorization.keys["rules"]:
        del authorization.keys["rules"]


def _rules(bridge: Section, authorization: Section) -> list[Section]:
    topics, name = bridge.keys["topics"], bridge.get("name")
    assert isinstance(topics, list)  # as they are always put
    made = []
    for action, ways in _WAYS.items():
        filters = [
            f"{topic.get('local_prefix') or ''}{topic.get('filter') or ''}"
            for topic in topics
            if topic.get("direction") in ways
        ]
        plain = [each for each in dict.fromkeys(filters) if "{" not in each]
        if len(plain) < len(set(filters)):
            authorization.remarks.append(_BRACES.format(name=name))
        if plain:
            rule = Section()
            rule.put("permit", "allow", _RULE)
            rule.put("topics", plain)
            rule.put("action", action)
            rule.put("client_ids", [f"{CLIENT_ID}{name}"])
            made.append(rule)
    return made


def _plain(section: Section) -> dict[str, Any]:
    """A section as the values that it is loaded from."""
    values: dict[str, Any] = {}
    for key, found in section.keys.items():
        if isinstance(found, Value):
            values[key] = found.value
        elif isinstance(found, list):
            values[key] = [_plain(each) for each in found]
        elif found.keys:
            values[key] = _plain(found)
    return values
