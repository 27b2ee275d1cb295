"""Layers (file, environment, flags) of raw values, each value with its origin.

A layer is a tree of dicts as YAML gives it, not validated yet. A path holds names, and indexes in lists.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]
"""A place in the configuration: ("listeners", 0, "bind")."""

Tree = dict[str, Any]
"""Raw values by key; sections are dicts themselves."""


@dataclass(frozen=True)
class Origin:
    """Where a value was written: the name of a file, variable or flag, and for a file the line."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass
class Layer:
    """Raw values and the origin of each of them, sections and list items included."""

    values: Tree = field(default_factory=dict)
    origins: dict[Path, Origin] = field(default_factory=dict)

    def put(self, layer: "Layer") -> None:
        """Put `layer` on top of this one: sections are merged, everything else (lists too) is replaced."""
        self._put((), self.values, layer.values)
        self.origins.update(layer.origins)

    def origin(self, path: Path) -> Origin | None:
        """The origin of the value at `path`, or of the nearest section or list around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return None

    def _put(self, path: Path, into: Tree, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            here = (*path, key)
            if isinstance(value, dict) and isinstance(into.get(key), dict):
                self._put(here, into[key], value)
            else:
                self._forget(here)
                into[key] = deepcopy(value)

    def _forget(self, path: Path) -> None:
        for known in [known for known in self.origins if known[: len(path)] == path]:
            del self.origins[known]


def origins_of(values: object, origin: Origin, path: Path = ()) -> dict[Path, Origin]:
    """Give every value of a tree the same origin."""
    origins = {path: origin} if path else {}
    for key, value in _children(values):
        origins |= origins_of(value, origin, (*path, key))
    return origins


def dotted(path: Iterable[str | int]) -> str:
    """A path as messages write it: `listeners[0].bind`."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def _children(values: object) -> Iterable[tuple[str | int, object]]:
    if isinstance(values, dict):
        return values.items()
    if isinstance(values, list):
        return enumerate(values)
    return ()
