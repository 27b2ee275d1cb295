"""Rules between keys of addresses, and between the entries of lists that match topics.

Like the rules for listeners (`config.rules`) they work on what could be parsed: an entry is a mapping of the keys with
valid values, defaults included.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from config.address_settings import AddressSettings
from config.layers import Path, dotted
from config.rules import BrokenRule
from config.units import UNBOUNDED, format_size, format_window, found

Entry = Mapping[str, Any]
"""The keys of one entry that could be parsed."""

_ONLY_WITH: Final = {
    "block_timeout": "block",
    "reject_threshold_bytes": "block",
    "page_limit_bytes": "page",
    "page_full_policy": "page",
}
"""Keys that have an effect with one full_policy only."""


def broken(addresses: Sequence[Entry], journal: bool | None, priorities: Sequence[Entry]) -> list[BrokenRule]:
    """All broken rules; `journal`: whether it has a directory, None = could not be parsed."""
    problems = _same_match(("addresses",), addresses) + _same_match(("session", "mqueue_priorities"), priorities)
    for index, address in enumerate(addresses):
        path = ("addresses", index)
        problems += _reject_threshold(path, address)
        problems += _foreign_keys(path, address)
        if journal is False and address.get("full_policy") == "page":
            message = "found page without persistence.directory: set that, because pages are in the journal"
            problems.append(BrokenRule((*path, "full_policy"), message))
    return problems


def _same_match(path: Path, entries: Sequence[Entry]) -> list[BrokenRule]:
    """Each filter may occur once; the later one is the mistake."""
    problems: list[BrokenRule] = []
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        match = entry.get("match")
        if match is None:
            continue
        earlier = first.setdefault(match, index)
        if earlier != index:
            message = f"found {found(match)}, which {dotted((*path, earlier))} has too: keep one of them"
            problems.append(BrokenRule((*path, index, "match"), message))
    return problems


def _reject_threshold(path: Path, address: Entry) -> list[BrokenRule]:
    threshold, size = address.get("reject_threshold_bytes", UNBOUNDED), address.get("max_size_bytes", 0)
    if threshold == UNBOUNDED or threshold >= size:
        return []
    message = (
        f"found {format_window(threshold)}, less than max_size_bytes: "
        f"write {format_size(size)} or more, or infinity for no limit"
    )
    return [BrokenRule((*path, "reject_threshold_bytes"), message)]


def _foreign_keys(path: Path, address: Entry) -> list[BrokenRule]:
    """A key without effect is a mistake, unless it has its default value."""
    policy = address.get("full_policy")
    problems: list[BrokenRule] = []
    for key, needed in _ONLY_WITH.items():
        default = AddressSettings.model_fields[key].default
        if policy is not None and policy != needed and address.get(key, default) != default:
            message = f"has no effect with full_policy: {policy}: leave it out, or set full_policy: {needed}"
            problems.append(BrokenRule((*path, key), message))
    return problems
