"""Parses raw values that may hold mistakes, as far as possible, for the rules between keys.

A value that cannot be parsed becomes None: one mistake must not hide another or cause a false one.
"""

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError

from config.address_rules import Entry
from config.address_settings import AddressSettings
from config.admin import CHOSEN
from config.bind_address import BindAddress, parse
from config.bridge import Bridge
from config.cluster import Cluster
from config.drop_events import DropEvents
from config.layers import Path
from config.models import host_name
from config.mqtt import Mqtt
from config.rules import ListenerFacts
from config.session import Priority
from config.value_types import WRITTEN

RULES_FILE: Final = ("authorization", "rules_file")

_FILES: Final[tuple[Path, ...]] = (
    ("authentication", "password_file"),
    ("authentication", "jwt", "key_file"),
    ("authentication", "jwt", "jwks_file"),
    ("authentication", "jwt", "jwks_cafile"),
    ("authentication", "http", "cafile"),
    ("authentication", "http", "header_file"),
    ("authentication", "postgres", "cafile"),
    ("authentication", "postgres", "password_file"),
    ("authorization", "acl_file"),
    RULES_FILE,
)

_BOOL: Final = TypeAdapter[bool](bool)
_INT: Final = TypeAdapter[int](int)


def listeners(raw: object) -> list[ListenerFacts]:
    """The facts of each listener that is a mapping."""
    items = raw if isinstance(raw, list) else []
    return [_facts(index, item) for index, item in enumerate(items) if isinstance(item, dict)]


def allow_anonymous(raw: Mapping[str, Any]) -> bool | None:
    """The raw setting; one that cannot be parsed counts as true, which breaks no rule."""
    value = raw.get("allow_anonymous")
    if value is None:
        return None
    parsed = _bool(value)
    return True if parsed is None else parsed


def users(raw: Mapping[str, Any]) -> bool | None:
    """Whether there are users; entries with mistakes count."""
    section = raw.get("authentication", {})
    if not isinstance(section, dict):
        return None
    if any(section.get(key) is not None for key in ("password_file", "jwt", "postgres", "http")):
        return True
    if section.get("plugins"):
        return True
    entries = section.get("scram", [])
    return bool(entries) if isinstance(entries, list) else None


def file_names(raw: Mapping[str, Any]) -> dict[Path, str | None]:
    """The raw names of files that are read as they are; None for keys that are not set, or not to a path."""
    found: dict[Path, str | None] = {}
    for path in _FILES:
        value: object = raw
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        found[path] = _file_name(value)
    for index, bridge in enumerate(_bridges(raw)):
        found["bridges", index, "password_file"] = _file_name(bridge.get("password_file"))
    return found


def bridge_names(raw: Mapping[str, Any]) -> list[str | None]:
    """The name of each bridge; None if it cannot be parsed."""
    names = [bridge.get("name") for bridge in _bridges(raw)]
    return [name if isinstance(name, str) else None for name in names]


def bridges(raw: Mapping[str, Any]) -> list[Entry]:
    """The keys of each bridge that can be parsed."""
    return _entries(Bridge, raw.get("bridges"))


def workers(raw: Mapping[str, Any]) -> int:
    """The number of workers; 1 if it cannot be parsed."""
    found = raw.get("cluster")
    try:
        return Cluster.model_validate(found if isinstance(found, dict) else {}).count
    except ValidationError:
        return 1


def node_name(raw: Mapping[str, Any]) -> str | None:
    """The name of the node; None if it cannot be parsed."""
    name = raw.get("node_name", host_name())
    return name if isinstance(name, str) else None


def addresses(raw: Mapping[str, Any]) -> list[Entry]:
    """The keys of each address that can be parsed."""
    return _entries(AddressSettings, raw.get("addresses"))


def priorities(raw: Mapping[str, Any]) -> list[Entry]:
    """The keys of each priority that can be parsed."""
    section = raw.get("session")
    return _entries(Priority, section.get("mqueue_priorities") if isinstance(section, dict) else None)


def journal(raw: Mapping[str, Any]) -> bool | None:
    """Whether there is a directory for the journal; an invalid one counts."""
    section = raw.get("persistence", {})
    return section.get("directory") is not None if isinstance(section, dict) else None


def admin(raw: Mapping[str, Any]) -> tuple[BindAddress | None, bool | None, bool | None]:
    """Where the admin API listens over TCP, whether with TLS, and whether there are tokens, or a socket for links."""
    section = raw.get("admin", {})
    if not isinstance(section, dict):
        return None, None, None
    tokens = section.get("tokens", [])
    has_tokens = bool(tokens) if isinstance(tokens, list) else None
    has_socket = section.get("socket", CHOSEN) is not None
    return _address(section.get("listen")), section.get("tls") is not None, has_socket or has_tokens


def drop_topic(raw: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """`drop_events.topic` and `mqtt.max_topic_levels`; None: it cannot be parsed, or there is no such section."""
    events, mqtt = raw.get("drop_events"), raw.get("mqtt", {})
    topic = events.get("topic", DropEvents().topic) if isinstance(events, dict) else None
    levels = mqtt.get("max_topic_levels", Mqtt().max_topic_levels) if isinstance(mqtt, dict) else None
    return topic if isinstance(topic, str) else None, _int(levels)


def _bridges(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The bridges; one that is not a mapping is empty, so that indexes stay."""
    items = raw.get("bridges")
    return [item if isinstance(item, dict) else {} for item in items] if isinstance(items, list) else []


def _file_name(value: object) -> str | None:
    return str(value) if isinstance(value, str | FilePath) and str(value) else None


def _entries(model: type[BaseModel], items: object) -> list[Entry]:
    """The entries of a list; an entry that is not a mapping is empty, so that indexes stay."""
    return [_entry(model, item) for item in items] if isinstance(items, list) else []


def _entry(model: type[BaseModel], item: object) -> Entry:
    given = item if isinstance(item, dict) else {}
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name in given:
            try:
                adapter = TypeAdapter[Any](field.rebuild_annotation())
                values[name] = adapter.validate_python(given[name], context={WRITTEN: True})
            except ValidationError:
                pass
        elif not field.is_required():
            values[name] = field.get_default(call_default_factory=True)
    return values


def _facts(index: int, item: Mapping[str, Any]) -> ListenerFacts:
    name = item.get("name", "default")
    certificate, cafile = _tls(item.get("tls"))
    return ListenerFacts(
        index=index,
        name=name if isinstance(name, str) else None,
        address=_address(item.get("bind")),
        client_certificate=certificate,
        has_cafile=cafile,
        anonymous=allow_anonymous(item),
    )


def _tls(raw: object) -> tuple[bool | None, bool | None]:
    """Whether a client certificate is required, and whether there is a cafile."""
    if raw is None:
        return False, False
    if not isinstance(raw, dict):
        return None, None
    return _bool(raw.get("require_client_certificate", False)), raw.get("cafile") is not None


def _address(raw: object) -> BindAddress | None:
    try:
        return parse(raw)
    except ValueError:
        return None


def _int(raw: object) -> int | None:
    try:
        return _INT.validate_python(raw)
    except ValidationError:
        return None


def _bool(raw: object) -> bool | None:
    try:
        return _BOOL.validate_python(raw)
    except ValidationError:
        return None
