"""Finds, imports and creates plugins: what the entry points of other packages name."""

import inspect
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from broker.auth.authenticators.outage import where
from config.plugins import GROUPS, Plugin, unknown


def load(section: str, plugin: Plugin, method: str, waits: bool) -> Any:
    """Create a plugin from its settings.

    It must have `method`, as a coroutine function if `waits`. Raises OSError, which says what is wrong with it.
    """
    point = _find(section, plugin.name)
    dist = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    place = f"{section}.plugins: {plugin.name!r} ({point.value}{dist})"
    try:
        create = point.load()
    except Exception as error:
        raise OSError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    created = _create(create, plugin, place)
    found = getattr(created, method, None)
    if not callable(found) or inspect.iscoroutinefunction(found) != waits:
        wanted = f"`{'async ' if waits else ''}def {method}`"
        kind = "another kind of it" if callable(found) else "none"
        raise OSError(f"{place} must make an object with {wanted}, but {type(created).__name__} has {kind}")
    run = getattr(created, "run", None)
    if run is not None and not inspect.iscoroutinefunction(run):
        raise OSError(f"{place} makes a {type(created).__name__} whose `run` is not `async def run`")
    return created


def _find(section: str, name: str) -> EntryPoint:
    points = entry_points(group=GROUPS[section], name=name)
    found = list({point.value: point for point in points}.values())  # a package may be on the path twice
    if not found:
        raise OSError(f"{section}.plugins: {unknown(section, name)}")
    if len(found) > 1:
        values = ", ".join(point.value for point in found)
        raise OSError(f"{section}.plugins: {name!r} is the name of several entry points ({values}): uninstall one")
    return found[0]


def _create(create: Any, plugin: Plugin, place: str) -> object:
    """Raises OSError."""
    expected = "must be a class or function with one argument, the settings"
    if not callable(create):
        raise OSError(f"{place} is a {type(create).__name__}: it {expected}")
    call: Callable[[dict[str, Any]], object] = create
    settings = dict(plugin.settings)
    try:
        inspect.signature(call).bind(settings)
    except TypeError as error:
        raise OSError(f"{place} {expected}: {error}") from None
    except ValueError:
        pass  # written in C: it cannot be asked
    try:
        return call(settings)
    except ValueError as error:  # the plugin's own words about its settings
        raise OSError(f"{place} does not accept its settings: {error}") from error
    except Exception as error:  # its text may quote them
        raise OSError(f"{place} could not be created: {where(error)}") from error
