"""What does not go with several workers yet. Like `config.rules` it works on what could be parsed."""

from collections.abc import Mapping
from typing import Any, Final

from config.layers import Path
from config.rules import BrokenRule

KEYS: Final[tuple[Path, ...]] = (
    ("addresses",),
)
RETAINED: Final = ("max_retained_messages", "max_retained_bytes")
"""Keys of `quotas`: each cell has all retained messages, and knows the users of its own clients only."""


def broken(workers: int, values: Mapping[str, Any]) -> list[BrokenRule]:
    """The keys that are set, and that several workers cannot keep to. `values`: the configuration, as written."""
    if workers == 1:
        return []
    message = f"does not go with cluster.workers: {workers} yet: leave it out, or set cluster.workers to 1"
    broken = [BrokenRule(path, message) for path in KEYS if _value(values, path)]
    quotas = values.get("quotas")
    for number, quota in enumerate(quotas if isinstance(quotas, list) else []):
        own = quota if isinstance(quota, Mapping) else {}
        broken += [BrokenRule(("quotas", number, key), message) for key in RETAINED if own.get(key) is not None]
    return broken


def _value(values: Mapping[str, Any], path: Path) -> object:
    found: Any = values
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
