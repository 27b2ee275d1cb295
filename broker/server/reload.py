"""Reload: which keys of a new configuration apply to a running broker, and which need a restart."""

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import BaseModel

from broker.auth.authorizer import CONFIGURED
from broker.auth.rules import from_settings
from broker.server.listening import server_context
from broker.server.logs import limit, set_level
from config.layers import dotted
from config.models import Config

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from broker.broker import Broker

LIMITS: Final = ("max_mqueue_len", "max_mqueue_bytes", "mqueue_overflow", "mqueue_store_qos0")
"""Keys of `session` that apply to all sessions at once."""

_LIVE: Final = re.compile(
    rf"log\.(level|max_lines)|admin\.tokens(\[.*)?|session\.({'|'.join(LIMITS)})|listeners\[\d+\]\.tls\.(certfile|keyfile)"
    r"|memory_watermark|quotas(\[.*)?"
)
_RULES: Final = re.compile(r"authorization\.rules(\[.*)?")


class Changes(NamedTuple):
    """What a reload has done."""

    config: Config
    """What applies now."""
    changed: list[str]
    """Keys whose new values apply."""
    restart: list[str]
    """Keys whose new values need a restart: the old ones still apply."""


def apply(new: Config, old: Config, broker: "Broker", contexts: "Mapping[str, ssl.SSLContext]") -> Changes:
    """Apply what can change to a running broker. `contexts`: by listener name.

    Certificates are read again, whether their paths have changed or not. Raises OSError, before anything has changed,
    if one cannot be used.
    """
    before, after = _flat(old), _flat(new)
    differing = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    rules_may_change = broker.authorizer is not None and new.authorization.has_rules
    live = [key for key in differing if _LIVE.fullmatch(key) or (rules_may_change and _RULES.fullmatch(key))]
    restart = [key for key in differing if key not in live]
    same_listeners = [each.model_copy(update={"tls": None}) for each in old.listeners] == [
        each.model_copy(update={"tls": None}) for each in new.listeners
    ] and [each.tls is None for each in old.listeners] == [each.tls is None for each in new.listeners]
    if not same_listeners:  # their numbers are those of other listeners
        moved = [key for key in live if key.startswith("listeners")]
        live, restart = [key for key in live if key not in moved], restart + moved
    certified = _certified(old, new) if same_listeners else old
    for listener in certified.listeners:
        if listener.tls is not None:
            server_context(listener.tls)  # whether all of it can be used
    for listener in certified.listeners:
        if listener.tls is not None and listener.name in contexts:
            contexts[listener.name].load_cert_chain(listener.tls.certfile, listener.tls.keyfile)
    merged = _merged(certified, new, rules_may_change)
    broker.quotas.narrow(False)  # it changes the limits too
    _set_limits(broker, new)
    broker.use_quotas(merged)
    if any(_RULES.fullmatch(key) for key in live):
        broker.use_rules(CONFIGURED, [from_settings(rule) for rule in new.authorization.rules])
    set_level(new.log.level)
    limit(new.log.max_lines)
    broker.events.debug = new.log.level == "debug"
    return Changes(merged, sorted(live), sorted(restart))


def _certified(old: Config, new: Config) -> Config:
    """The old configuration with the new certificates."""
    listeners = []
    for was, is_now in zip(old.listeners, new.listeners, strict=True):
        tls = was.tls
        if tls is not None and is_now.tls is not None:
            tls = tls.model_copy(update={"certfile": is_now.tls.certfile, "keyfile": is_now.tls.keyfile})
        listeners.append(was.model_copy(update={"tls": tls}))
    return old.model_copy(update={"listeners": listeners})


def _set_limits(broker: "Broker", new: Config) -> None:
    limits, session = broker.settings.limits, new.session
    limits.max_mqueue_len = session.max_mqueue_len
    limits.max_mqueue_bytes = session.max_mqueue_bytes
    limits.mqueue_overflow = session.mqueue_overflow
    limits.mqueue_store_qos0 = session.mqueue_store_qos0


def _merged(old: Config, new: Config, rules: bool) -> Config:
    """What applies: the old configuration with those keys of the new one that can change."""
    limits = {key: getattr(new.session, key) for key in LIMITS}
    authorization = old.authorization.model_copy(update={"rules": new.authorization.rules}) if rules else None
    return old.model_copy(
        update={
            "log": old.log.model_copy(update={"level": new.log.level, "max_lines": new.log.max_lines}),
            "admin": old.admin.model_copy(update={"tokens": new.admin.tokens}),
            "session": old.session.model_copy(update=limits),
            "quotas": new.quotas,
            "memory_watermark": new.memory_watermark,
            "authorization": authorization or old.authorization,
        }
    )


def _flat(value: object, path: tuple[str | int, ...] = ()) -> dict[str, Any]:
    """Every value that is not a section, by dotted key."""
    found: dict[str, Any] = {}
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            found |= _flat(getattr(value, name), (*path, name))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            found |= _flat(item, (*path, index))
    else:
        found[dotted(path)] = value
    return found
