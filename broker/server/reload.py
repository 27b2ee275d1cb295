"""Reload: what of a new configuration applies to a running broker at once, and what needs a restart and why."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from broker.auth.watched_file import WatchedFile
from broker.server.listener_plan import ListenerPlan, plan_listeners
from config.layers import dotted
from config.load import Loaded
from config.models import Config, Listener
from config.value_types import keys_of

_TOLD: Final = "clients that are connected have been told the old value in CONNACK"
_OPENED: Final = "it is opened when the broker starts"
_NAMED: Final = "metrics, logs and the path of the admin socket have the old name"
_HELD: Final = "what waits at full addresses has been accepted by the old limits"
_CHECKED: Final = "topics and subscriptions that are there have been checked against the old value"

RESTART: Final = (
    (r"node_name", _NAMED),
    (r"mqtt\.max_topic_levels", _CHECKED),
    (r"mqtt\.(topic_alias_maximum|maximum_qos|(retain|wildcard_subscription|shared_subscription)_available)", _TOLD),
    (r"mqtt\.subscription_identifiers_available|session\.receive_maximum", _TOLD),
    (r"mqtt\.sys_interval", "the task that publishes the topics under $SYS has begun with the old one"),
    (r"addresses.*", _HELD),
    (r"authentication\.(?!scram).*", _OPENED),
    (r"authorization\.(rules_file|acl_file|plugins).*", _OPENED),
    (r"cluster\..*", "the cells start with the broker"),
    (r"persistence\..*", "the journal is opened when the broker starts"),
    (r"admin\.(socket|listen|tls).*", "operators are connected there"),
    (r"metrics\..*", "the export of the metrics starts with the broker"),
    (r"log\.format", "the log of one process has one format"),
)
"""Keys, as patterns, that do not change live, and why. All others do, except that those of _ACCESS change live only if
none of them needs a restart. Listeners are planned one by one."""

_RESTART: Final = [(re.compile(pattern), reason) for pattern, reason in RESTART]

_ACCESS: Final = re.compile(r"allow_anonymous|authorization\..*|authentication\.(?!failed_logins).*")
"""Keys that decide who may connect and what clients may do, beside those of listeners. `failed_logins` is not one."""


class Plan(NamedTuple):
    """What a reload will change."""

    config: Config
    """What will apply: the new configuration, where it can, and the old one otherwise."""
    changed: list[str]
    """Keys whose new values will apply."""
    restart: dict[str, str]
    """Keys whose new values need a restart, and why."""
    listeners: ListenerPlan


class Changes(NamedTuple):
    """What a reload has done."""

    changed: list[str]
    """Keys whose new values apply."""
    renewed: list[str]
    """Keys that name the same files as before, of which these have other contents than at the last reload."""
    opened: list[Listener]
    closed: list[Listener]
    disconnected: dict[str, int]
    """How many clients each listener had that is gone."""
    restart: dict[str, str]
    """Keys whose new values need a restart, and why: the old ones still apply."""


def plan_reload(new: Config, old: Config) -> Plan:
    """What can change. Raises OSError if what is left of the new configuration would not be valid."""
    listeners = plan_listeners(old.listeners, new.listeners)
    before, after = _flat(_without_listeners(old)), _flat(_without_listeners(new))
    differing = sorted(key for key in {**before, **after} if before.get(key) != after.get(key))
    reasons = {key: _reason(key) for key in differing}
    restart = {key: reason for key, reason in reasons.items() if reason}
    access = [key for key in differing if _ACCESS.fullmatch(key)]
    waiting = {key: restart[key] for key in access if key in restart} | listeners.restart
    if access and waiting:
        # Else protection that moves from a key that changes live to one that does not would be gone until the restart.
        key, reason = next(iter(waiting.items()))
        together = f"what decides about access changes together, and {key} waits: {reason}"
        restart = dict.fromkeys([*access, *_differing_listeners(listeners, new)], together) | restart
        listeners = plan_listeners(old.listeners, old.listeners)._replace(restart=listeners.restart)
    config = _merged(old, new, set(restart)).model_copy(update={"listeners": listeners.applied})
    problems = config.problems()
    if problems:
        raise OSError(f"nothing has changed, because without what needs a restart ({', '.join(restart)}): {problems}")
    changed = [key for key in differing if key not in restart]
    changed += _changed_in_listeners(listeners, new)
    return Plan(config, sorted(changed), restart | listeners.restart, listeners)


async def read_again(
    files: Sequence[WatchedFile[Any]], config: Config, held: AsyncExitStack
) -> list[tuple[WatchedFile[Any], Any]]:
    """What the files hold that have changed. Nobody else looks at them until `held` ends. Raises OSError.

    Those that the new configuration does not name stay as they are until the restart: they may be gone.
    """
    named = _flat(config)
    found = []
    for file in files:
        if any(named.get(key) != path for key, path in file.files.items()):
            continue
        content = await file.read_again(held)
        if content is not None:
            found.append((file, content))
    return found


def sources_after(plan: Plan, loaded: Loaded, before: Mapping[str, str]) -> dict[str, str]:
    """The source of each value that will apply: the old one, `before`, if the value is not what has been loaded."""
    new, applied = _flat(loaded.config), _flat(plan.config)
    return {
        key: (loaded.sources if key in new and new[key] == value else before).get(key, "")
        for key, value in applied.items()
    }


def _reason(key: str) -> str:
    """Why a key needs a restart; empty if it does not."""
    return next((reason for pattern, reason in _RESTART if pattern.fullmatch(key)), "")


def _without_listeners(config: Config) -> Config:
    return config.model_copy(update={"listeners": []})


def _differing_listeners(plan: ListenerPlan, new: Config) -> list[str]:
    """Keys of listeners that the plan changes, opens or closes."""
    moved = [was.name for was, _ in plan.moved]
    opened = [f"listeners[{new.listeners.index(one)}].bind" for one in plan.opened if one.name not in moved]
    return [*_changed_in_listeners(plan, new), *opened, *(f"listeners ({one.name})" for one in plan.gone)]


def _changed_in_listeners(plan: ListenerPlan, new: Config) -> list[str]:
    """Keys of listeners that are there before and after."""
    pairs = [pair for pair in [*plan.stay, *plan.moved] if pair[0] is not pair[1]]  # else it waits for the restart
    return [key for was, settings in pairs for key in _changed_keys(was, settings, new.listeners.index(settings))]


def _changed_keys(was: Listener, settings: Listener, index: int) -> list[str]:
    before, after = _flat(was), _flat(settings)
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return [f"listeners[{index}].{key}" for key in keys]


def _merged(old: Config, new: Config, kept: set[str]) -> Config:
    """The new configuration with the old values of these keys."""
    update: dict[str, object] = {}
    for name in type(new).model_fields:
        section = getattr(new, name)
        own = {key for key in kept if re.match(rf"{name}(?![a-z_])", key)}
        if not own:
            continue
        if not isinstance(section, BaseModel):
            update[name] = getattr(old, name)
            continue
        before = getattr(old, name)
        parts = {re.split(r"[.\[]", key)[1] for key in own}
        update[name] = section.model_copy(update={part: getattr(before, part) for part in parts})
    return new.model_copy(update=update)


def _flat(value: object, path: tuple[str | int, ...] = ()) -> dict[str, Any]:
    """Every value that is not a section, by dotted key."""
    found: dict[str, Any] = {}
    if isinstance(value, BaseModel):
        for name in keys_of(value):
            found |= _flat(getattr(value, name), (*path, name))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            found |= _flat(item, (*path, index))
    else:
        found[dotted(path)] = value
    return found


def summary(changes: Changes) -> str:
    """What a reload has done, for the audit log."""
    done = {
        "changed": changes.changed,
        "renewed": changes.renewed,
        "opened": [each.name for each in changes.opened],
        "closed": [each.name for each in changes.closed],
    }
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in done.items() if names) or "changed: nothing"
