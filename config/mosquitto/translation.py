"""Translates the lines of mosquitto.conf."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from config.imported.draft import Finding, Line, Section
from config.mosquitto import options, values
from config.mosquitto.lines import path_of
from config.mosquitto.listener import NO_HTTP, NO_NAMES, Listener, Security
from config.mosquitto.opening import OF_SECURITY
from config.mosquitto.permissions import put_permissions

_PATHS: Final = ("certfile", "keyfile", "cafile", "crlfile")
_CHECKED: Final[dict[str, values.Read]] = {
    "allow_anonymous": values.boolean,
    "listener_allow_anonymous": values.boolean,
    "password_file": values.text,
    "acl_file": values.text,
    "port": values.whole(1, 65_535),
    "bind_address": values.text,
    "bind_interface": values.text,
    "protocol": values.one_of("mqtt", "websockets", "http_api"),
    "socket_domain": values.one_of("ipv4", "ipv6"),
    "require_certificate": values.boolean,
    "use_identity_as_username": values.boolean,
    "tls_version": values.one_of("tlsv1", "tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3"),
    "max_connections": values.whole(),
    "max_qos": values.whole(0, 2),
    "max_topic_alias": values.whole(0, 65_535),
    "enable_proxy_protocol": values.whole(1, 2),
    "websockets_origin": values.text,
} | dict.fromkeys(_PATHS, values.text)
"""Options of listeners, and of who may connect, with what reads their values."""

_PER_LISTENER: Final = "Sluice has allow_anonymous for each listener; users and rules are those of all listeners"
_REPLACED: Final = "a later line replaces it"
_ONE_LIMIT: Final = "mqtt.max_connections is one limit for all listeners together; -1 is none"
_PLUGIN_OPTIONS: Final = ("plugin_opt_", "auth_opt_")
_NOT_OPENED: Final = "it is about Mosquitto's default listener, which is not opened"
_LEFT_OUT: Final = "it is about a listener that is left out"
_RESIDENT: Final = (
    "memory_watermark is about the resident memory of the process, of which Sluice itself needs some 70 MiB, and more "
    "with a journal; Mosquitto counts what it has allocated"
)
_DATABASE: Final = "mosquitto.db"
_PERSISTENCE: Final = {"persistence_location": "location", "persistence_file": "file"}


@dataclass
class Translated:
    """A new configuration, and what has to be said about it."""

    section: Section
    findings: list[Finding]
    users: Path | None = None
    """A file of users that has to be made, without any: Mosquitto lets nobody in."""
    database: Path | None = None
    """Mosquitto's persistence file, if it has one."""


def translate(lines: Sequence[Line], found: Sequence[Finding], users: Path, journal: Path) -> Translated:
    """Translate lines. `found`: what is known to be wrong already; `users`: where a file without users would be;
    `journal`: a directory for the journal. Raises ValueError if nothing could be served."""
    translation = _Translation(found, journal)
    for line in lines:
        translation.take(line)
    return translation.end(users)


class _Translation:
    """The state while lines are read."""

    def __init__(self, found: Sequence[Finding], journal: Path) -> None:
        self._journal = journal
        self._root = Section()
        self._findings = list(found)
        self._default = Listener()
        self._listeners: list[Listener] = []
        self._all = Security()
        self._per_listener = False
        self._local_only = True
        self._bridge = False
        self._plugin = False
        self._persistence: dict[str, Line] = {}
        self._levels: list[tuple[str, Line]] = []

    # -- line by line

    def take(self, line: Line) -> None:
        """Take one line over, or say why not."""
        try:
            self._take(line)
        except ValueError as error:
            self._wrong(line, str(error))

    def _take(self, line: Line) -> None:
        name = "max_qos" if line.name == "maximum_qos" else line.name
        if name == "listener":
            self._add_listener(line)
        elif name in _CHECKED:
            _CHECKED[name](line.value)
            self._about_listener(name, line)
        elif name in options.KEYS:
            self._put_key(name, line)
        elif name in options.BRIDGES or name.startswith("bridge_"):
            self._about_bridge(name, line)
        elif name in options.LEFT_OF_LISTENER:
            values.text(line.value)
            self._need_listener(name)
            self._current.lines[name] = line
            self._left(line, options.LEFT_OF_LISTENER[name], options.guards(name, line.value))
        elif name in options.LEFT:
            values.text(line.value)
            self._plugin = self._plugin or "plugin" in name
            if self._per_listener and name in OF_SECURITY:
                self._current.security.lines[name] = line
            self._left(line, options.LEFT[name], options.guards(name, line.value))
        elif name.startswith(_PLUGIN_OPTIONS):
            self._about_plugin(line)
        else:
            self._about_broker(name, line)

    def _about_broker(self, name: str, line: Line) -> None:
        """Options of the whole broker that need more than a key."""
        if name == "per_listener_settings":
            self._per_listener = self._per_listener or values.boolean(line.value)
            self._leave(line, _PER_LISTENER)
        elif name == "allow_duplicate_messages":
            each = values.boolean(line.value)
            self._root.section("mqtt").put("overlapping_subscriptions", "each" if each else "merge", line)
        elif name == "memory_limit":
            limit = values.whole(0, 2**63 - 1)(line.value)
            self._root.put("memory_watermark", f"{limit}B" if limit else values.INFINITY, line)
            if limit:
                self._root.remarks.append(f"{line}: {_RESIDENT}")
        elif name == "log_type":
            level = options.LOG_LEVELS.get(values.text(line.value).split()[0])
            if level is None:
                raise ValueError(f"write one of {', '.join(options.LOG_LEVELS)}")
            self._levels.append((level, line))
            lowest = min((each for each, _ in self._levels), key=options.LEVELS.index)
            self._root.section("log").keys.pop("level", None)
            self._root.section("log").put("level", lowest, *(source for _, source in self._levels))
        elif name in ("persistence", "retained_persistence"):
            values.boolean(line.value)
            self._set(self._persistence, "on", line)
        elif name in _PERSISTENCE:
            values.text(line.value)
            self._set(self._persistence, _PERSISTENCE[name], line)
        else:
            raise ValueError("Mosquitto has no such option")

    def _put_key(self, name: str, line: Line) -> None:
        key = options.KEYS[name]
        value = key.read(line.value)
        self._root.section(key.section).put(key.key, value, line)
        if name == "persistent_client_expiration":
            self._root.section("mqtt").put("max_session_expiry_interval", value, line)

    def _add_listener(self, line: Line) -> None:
        number, *rest = values.text(line.value).split()
        port = values.whole(0, 65_535)(number)
        if port == 0 and not rest:
            raise ValueError("a listener with port 0 needs the path of a Unix socket")
        self._local_only = False
        self._listeners.append(Listener(line))

    def _about_listener(self, name: str, line: Line) -> None:
        self._need_listener(name)
        if name in ("port", "bind_address"):
            self._local_only = False
            self._set(self._default.lines, name, line)
            return
        current = self._current
        if name == "listener_allow_anonymous":
            self._set(current.security.lines, "allow_anonymous", line)
        elif name in ("allow_anonymous", "password_file", "acl_file"):
            self._set((current.security if self._per_listener else self._all).lines, name, line)
        elif name == "websockets_origin":
            current.origins.append(line)
        else:
            self._set(current.lines, name, line)

    def _about_bridge(self, name: str, line: Line) -> None:
        if name == "connection":
            values.text(line.value)
            self._bridge = True
        if not self._bridge:
            raise ValueError("it needs a line `connection NAME` above it")
        self._leave(line, options.BRIDGE)

    def _about_plugin(self, line: Line) -> None:
        if not self._plugin:
            raise ValueError("it needs a line that names a plugin above it")
        if line.name in _PLUGIN_OPTIONS:
            raise ValueError("the name of the plugin's option is missing")
        values.text(line.value)
        self._leave(line, options.LEFT["plugin"])

    def _need_listener(self, name: str) -> None:
        if name in options.NEEDS_LISTENER and not self._listeners:
            raise ValueError("it needs a line `listener PORT` above it")

    def _set(self, lines: dict[str, Line], name: str, line: Line) -> None:
        """A later line replaces an earlier one."""
        if name in lines:
            self._leave(lines[name], _REPLACED)
        lines[name] = line

    @property
    def _current(self) -> Listener:
        """The listener that lines are about."""
        return self._listeners[-1] if self._listeners else self._default

    def _leave(self, line: Line, why: str) -> None:
        self._left(line, why, False)

    def _wrong(self, line: Line, why: str) -> None:
        self._left(line, why, True)

    def _left(self, line: Line, why: str, wrong: bool) -> None:
        self._findings.append(Finding(line, why, wrong))

    # -- at the end

    def end(self, users: Path) -> Translated:
        """Put together what the lines say."""
        served = [each for each in self._opened() if self._is_served(each)]
        if not served:
            raise ValueError("no listener is left:\n" + "\n".join(map(str, self._findings)))
        self._put_defaults()
        taken: set[str] = set()
        sections = [listener.section(self._local_only, path_of, taken) for listener in served]
        parts = list(zip(served, sections, strict=True))
        made = put_permissions(self._root, parts, self._all, self._per_listener, self._local_only, users, self._wrong)
        for line in (each.unnamed for each in served):
            if line is not None:
                self._wrong(line, NO_NAMES)
        self._put_common(served)
        database = self._put_persistence()
        ordered = Section()
        for key in ("allow_anonymous", "memory_watermark"):
            if key in self._root.keys:
                ordered.keys[key] = self._root.keys.pop(key)
        ordered.keys["listeners"] = sections
        ordered.keys |= self._root.keys
        ordered.remarks = self._root.remarks + [str(each) for each in self._findings]
        return Translated(ordered, self._findings, users if made else None, database)

    def _opened(self) -> list[Listener]:
        """The listeners that Mosquitto opens."""
        if self._default.used or not self._listeners:
            return [self._default, *self._listeners]
        self._leave_all(self._default, _NOT_OPENED)
        return self._listeners

    def _is_served(self, listener: Listener) -> bool:
        """Whether we open a listener too; if not, its lines are findings."""
        unserved = listener.unserved
        if unserved is None:
            return True
        line, why = unserved
        self._findings = [each for each in self._findings if each.line != line]  # there is more to say about it
        self._left(line, why, wrong=why != NO_HTTP)
        self._leave_all(listener, _LEFT_OUT)
        return False

    def _leave_all(self, listener: Listener, why: str) -> None:
        told = {each.line for each in self._findings}
        for line in listener.about():
            if line not in told:
                self._leave(line, why)

    def _put_defaults(self) -> None:
        for default in options.DEFAULTS:
            section = self._root.section(default.section)
            if default.key not in section.keys:
                section.put(default.key, default.read(""), "Mosquitto's default")

    def _put_common(self, served: list[Listener]) -> None:
        """What Mosquitto has for each listener, and Sluice for all of them."""
        self._common(served, "max_qos", "maximum_qos", max, 2)
        self._common(served, "max_topic_alias", "topic_alias_maximum", max, 10)
        limits = [_limit(each) for each in served]
        if all(limit > 0 for limit in limits) and "max_connections" not in self._root.section("mqtt").keys:
            sources = [each.lines["max_connections"] for each in served]
            self._root.section("mqtt").put("max_connections", sum(limits), *sources)
            if len(served) > 1:
                self._root.section("mqtt").remarks.append("max_connections is one limit for all listeners together")
            return
        for each in served:
            if "max_connections" in each.lines:
                self._leave(each.lines["max_connections"], _ONE_LIMIT)

    def _common(
        self, served: list[Listener], option: str, key: str, choose: Callable[[list[int]], int], default: int
    ) -> None:
        lines = [each.lines[option] for each in served if option in each.lines]
        if not lines:
            return
        read = values.whole()
        numbers = [read(line.value) for line in lines] + [default] * (len(served) - len(lines))
        self._root.section("mqtt").put(key, choose(numbers), *lines)
        if len(set(numbers)) > 1:
            text = f"{option} differs between listeners: {key} is the largest, for all of them"
            self._root.section("mqtt").remarks.append(text)

    def _put_persistence(self) -> Path | None:
        """Where Mosquitto's persistence file is; None = it has none."""
        on = self._persistence.get("on")
        if on is not None and values.boolean(on.value):
            self._root.section("persistence").put("directory", str(self._journal), *self._persistence.values())
            location, file = self._persistence.get("location"), self._persistence.get("file")
            name = _DATABASE if file is None else file.value
            # Without a location it is in Mosquitto's working directory, which is looked for as that of other files.
            if location is None:
                return Path(path_of(replace(on, value=name)))
            return Path(path_of(location)) / name
        for line in self._persistence.values():
            self._leave(line, "persistence is off")
        return None


def _limit(listener: Listener) -> int:
    line = listener.lines.get("max_connections")
    return values.whole()(line.value) if line is not None else 0
