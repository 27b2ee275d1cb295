"""The lists `authentication.plugins` and `authorization.plugins`: what other packages add, by their entry points."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any, Final

from pydantic import Field

from config.layers import Path
from config.units import found
from config.value_types import Model

GROUPS: Final = {"authentication": "sluice.authentication", "authorization": "sluice.authorization"}
"""The group of entry points of each section."""


class Plugin(Model):
    """One plugin, by the name of its entry point."""

    name: str = Field(min_length=1)
    settings: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Its own keys, as they are written. They are hidden like secrets, because some may be."""


def check_names(plugins: Sequence[Plugin]) -> Sequence[Plugin]:
    """Each plugin has one entry."""
    for name, count in Counter(plugin.name for plugin in plugins).items():
        if count > 1:
            raise ValueError(f"found {found(name)} {count} times: keep one entry of each plugin")
    return plugins


def installed(section: str) -> list[str]:
    """The names of the plugins that are installed for a section."""
    return sorted({point.name for point in entry_points(group=GROUPS[section])})


def unknown(section: str, name: str) -> str:
    """What to say of a plugin that is not installed."""
    names = installed(section)
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"installed are {', '.join(names) if names else 'none'}"
    return f"found {found(name)}, which no installed package has as an entry point of {GROUPS[section]}: {hint}"


def missing(raw: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Find plugins that are not installed, in raw values."""
    for section in GROUPS:
        values = raw.get(section)
        listed = values.get("plugins") if isinstance(values, dict) else None
        for index, each in enumerate(listed if isinstance(listed, list) else []):
            name = each.get("name") if isinstance(each, dict) else None
            if isinstance(name, str) and name and name not in installed(section):
                yield (section, "plugins", index, "name"), unknown(section, name)
