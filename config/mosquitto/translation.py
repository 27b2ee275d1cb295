"""Translates the lines of mosquitto.conf."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from config.files import is_there
from config.imported.draft import Finding, Line, Section, told
from config.mosquitto import options, plugins, values
from config.mosquitto.bridge_options import is_about_bridges
from config.mosquitto.bridges import Bridges
from config.mosquitto.listener import MORE_AUTHORITIES, NO_HTTP, Listener, Security
from config.mosquitto.opening import OF_SECURITY
from config.mosquitto.paths import Paths
from config.mosquitto.permissions import Permissions

_REFUSED: Final = "Mosquitto does not start with these lines, so nothing is written. Mend or remove them:"
_PER_LISTENER: Final = "Sluice has allow_anonymous for each listener; users and rules are those of all listeners"
_REPLACED: Final = "a later line replaces it"
_ONE_LIMIT: Final = "mqtt.max_connections is one limit for all listeners together; -1 is none"
_PLUGIN_OPTIONS: Final = ("plugin_opt_", "auth_opt_")
_TAB: Final = ": only spaces separate it from its value, not tabs"
_PLUGIN_OPTION: Final = "it is for the plugin"
_NOT_OPENED: Final = "it is about Mosquitto's default listener, which is not opened"
_LISTENER_OUT: Final = "The listener is left out"
_LEFT_OUT: Final = "it is about a listener that is left out"
_RESIDENT: Final = (
    "memory_watermark is about the resident memory of the process, of which Sluice itself needs up to 96 MiB. "
    "Mosquitto counts what it has allocated"
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
    passed_over: Path | None = None
    """Where that file would be if `persistence` were on."""
    chains: Sequence[tuple[str, Line]] = ()
    """Certificates whose chain may be in a cafile or capath that is for nothing else, and the line that names that."""
    passwords: Mapping[Path, str] = field(default_factory=dict)
    """Files of passwords that have to be made, with what is in them."""


def translate(
    lines: Sequence[Line], found: Sequence[Finding], users: Path, journal: Path, paths: Paths | None = None
) -> Translated:
    """Translate lines. `found`: what is known about them already; `users`: where a file without users would be;
    `journal`: a directory for the journal. Raises ValueError if Mosquitto would not start, or nothing could be served.
    """
    translation = _Translation(lines[0].file if lines else Path(), found, users, journal, paths or Paths())
    for line in lines:
        translation.take(line)
    return translation.end()


class _Translation:
    """The state while lines are read."""

    def __init__(self, first: Path, found: Sequence[Finding], users: Path, journal: Path, paths: Paths) -> None:
        self._first = first
        self._users = users
        self._journal = journal
        self._paths = paths
        self._bridges = Bridges(paths, self._left, users)
        self._root = Section()
        self._findings = [each for each in found if not each.wrong]
        self._refused = [each for each in found if each.wrong]
        self._default = Listener()
        self._listeners: list[Listener] = []
        self._all = Security()
        self._per_listener: bool | None = None
        self._secured = False
        """Whether there was a line about who may connect or do what."""
        self._local_only = True
        # Mosquitto begins anew with each file: with the default listener, and without a plugin; bridges do so too.
        self._file = first
        self._latest: dict[Path, Listener] = {}
        self._with_plugin: set[Path] = set()
        self._persistence: dict[str, Line] = {}
        self._levels: list[tuple[str, Line]] = []

    # -- line by line

    def take(self, line: Line) -> None:
        """Take one line over, or say why not."""
        self._file = line.file
        try:
            self._take(line)
        except ValueError as error:
            self._refused.append(Finding(line, str(error), wrong=True))

    def _take(self, line: Line) -> None:
        name = "max_qos" if line.name == "maximum_qos" else line.name
        self._secured = self._secured or name in OF_SECURITY or name == "auto_id_prefix"
        if name == "listener":
            self._add_listener(line)
        elif name in options.CHECKED:
            options.CHECKED[name](line.value)
            self._about_listener(name, line)
        elif name in options.KEYS:
            self._put_key(name, line)
        elif is_about_bridges(name):
            self._bridges.take(line)
        elif name in options.LEFT_OF_LISTENER:
            self._need_listener(name)
            self._leave_out(name, line, options.LEFT_OF_LISTENER[name])
            self._current.lines[name] = line
        elif name in options.LEFT:
            if "plugin" in name:
                self._with_plugin.add(self._file)
            if self._per_listener and name in OF_SECURITY:
                self._current.security.lines[name] = line
            self._leave_out(name, line, plugins.text(line.value) if "plugin" in name else options.LEFT[name])
        elif name.startswith(_PLUGIN_OPTIONS):
            self._about_plugin(line)
        else:
            self._about_broker(name, line)

    def _leave_out(self, name: str, line: Line, why: str) -> None:
        """An option without a counterpart. What decides about access closes what it is about."""
        values.boolean(line.value) if name in options.BOOLEANS else values.text(line.value)
        guards = options.guards(name, line.value)
        if guards and name in options.OF_LISTENER:
            self._current.guards.append(line)
        elif guards and name in options.OF_SECURITY and self._per_listener:
            self._current.security.guards.append(line)
        elif guards and name in options.OF_ALL | options.OF_SECURITY:
            self._all.guards.append(line)
        self._left(line, why, guards)

    def _about_broker(self, name: str, line: Line) -> None:
        """Options of the whole broker that need more than a key."""
        if name == "per_listener_settings":
            on = values.boolean(line.value)
            if (on and self._secured) or self._per_listener not in (None, on):
                raise ValueError("it has to be there once, above all lines about users and rules")
            self._per_listener = on
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
            level = options.LOG_LEVELS.get(values.word(line.value))
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
            raise ValueError("Mosquitto has no such option" + (_TAB if "\t" in name else ""))

    def _put_key(self, name: str, line: Line) -> None:
        key = options.KEYS[name]
        value = key.read(line.value)
        self._root.section(key.section).put(key.key, value, line)
        if name == "persistent_client_expiration":
            self._root.section("mqtt").put("max_session_expiry_interval", value, line)

    def _add_listener(self, line: Line) -> None:
        port = values.whole(0, 65_535)(line.value)
        added = Listener(line)
        if port == 0 and not added.host:
            raise ValueError("a listener with port 0 needs the path of a Unix socket")
        self._local_only = False
        self._listeners.append(added)
        self._latest[self._file] = added

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

    def _about_plugin(self, line: Line) -> None:
        if self._file not in self._with_plugin:
            raise ValueError("it needs a line that names a plugin above it")
        if line.name in _PLUGIN_OPTIONS:
            raise ValueError("the name of the plugin's option is missing")
        values.text(line.value)
        if line.name.endswith("_backends"):
            self._leave(line, plugins.backends(line.value))
        else:
            self._leave(line, _PLUGIN_OPTION)

    def _need_listener(self, name: str) -> None:
        if name in options.NEEDS_LISTENER and not self._listeners:
            raise ValueError("it needs a line `listener PORT` above it")

    def _set(self, lines: dict[str, Line], name: str, line: Line) -> None:
        """A later line replaces an earlier one."""
        if name in lines:
            if name in options.ONCE or line.name in options.ONCE:
                raise ValueError(f"Mosquitto takes it once: it is in line {lines[name].number} too")
            self._leave(lines[name], _REPLACED)
        lines[name] = line

    @property
    def _current(self) -> Listener:
        """The listener that lines of this file are about."""
        return self._latest.get(self._file, self._default)

    def _leave(self, line: Line, why: str) -> None:
        self._left(line, why, False)

    def _wrong(self, line: Line, why: str) -> None:
        self._left(line, why, True)

    def _left(self, line: Line, why: str, wrong: bool) -> None:
        self._findings.append(Finding(line, why, wrong))

    # -- at the end

    def end(self) -> Translated:
        """Put together what the lines say."""
        self._refused += self._bridges.refused()
        if self._refused:
            raise ValueError("\n".join([_REFUSED, *map(str, self._refused)]))
        served = [each for each in self._opened() if self._is_served(each)]
        if not served:
            raise ValueError("no listener is left:\n" + "\n".join(map(str, self._findings)))
        self._put_defaults()
        taken: set[str] = set()
        sections = [listener.section(self._local_only, self._paths.of, taken) for listener in served]
        for listener in served:
            self._tell_of_names(listener)
        secured = [_security(listener, self._all, bool(self._per_listener)) for listener in served]
        everywhere = self._all.lines.get("allow_anonymous")
        if everywhere is not None and not any(each.lines.get("allow_anonymous") is everywhere for each in secured):
            self._leave(everywhere, "each listener says so itself")
        permissions = Permissions(self._root, self._paths, self._wrong)
        made = permissions.put(list(zip(served, sections, secured, strict=True)), self._local_only, self._users)
        self._bridges.put(self._root)
        self._put_common(served)
        database = self._put_persistence()
        ordered = Section()
        for key in ("allow_anonymous", "memory_watermark"):
            if key in self._root.keys:
                ordered.keys[key] = self._root.keys.pop(key)
        ordered.keys["listeners"] = sections
        ordered.keys |= self._root.keys
        ordered.remarks = self._root.remarks + told(self._findings)
        on, where = database
        return Translated(
            ordered,
            self._findings,
            self._users if made else None,
            where if on else None,
            None if on else where,
            [
                (self._paths.of(each.lines["certfile"]), each.lines[key])
                for each in served
                for key in ("cafile", "capath")
                if not each.by_certificate and {"certfile", key} <= each.lines.keys()
            ],
            self._bridges.passwords,
        )

    def _tell_of_names(self, listener: Listener) -> None:
        """What certificates of clients decide, and Sluice cannot take over."""
        if listener.subject is not None:
            self._wrong(listener.subject, options.SUBJECT)
            listener.guards.append(listener.subject)
        more = listener.lines.get("capath")
        if listener.by_certificate and more is not None:
            self._findings = [each for each in self._findings if each.line is not more]
            self._wrong(more, MORE_AUTHORITIES)

    def _opened(self) -> list[Listener]:
        """The listeners that Mosquitto opens."""
        if self._default.used or not self._listeners:
            return [self._default, *self._listeners]
        self._leave_all(self._default, _NOT_OPENED)
        return self._listeners

    def _is_served(self, listener: Listener) -> bool:
        """Whether we open a listener too; if not, its lines are findings."""
        unserved = listener.unserved or _missing(listener, self._paths)
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

    def _put_persistence(self) -> tuple[bool, Path]:
        """Whether Mosquitto has a persistence file, and where it is."""
        line, location = self._persistence.get("on"), self._persistence.get("location")
        file = self._persistence.get("file")
        on = line is not None and values.boolean(line.value)
        if on:
            self._root.section("persistence").put("directory", str(self._journal), *self._persistence.values())
        else:
            for each in self._persistence.values():
                self._leave(each, "persistence is off")
        name = _DATABASE if file is None else file.value
        if location is not None:
            return on, Path(self._paths.of(location)) / name
        # It is in Mosquitto's working directory, which is looked for as that of other files.
        return on, Path(self._paths.of(replace(line or Line(self._first, 0, ""), value=name)))


def _limit(listener: Listener) -> int:
    line = listener.lines.get("max_connections")
    return values.whole()(line.value) if line is not None else 0


def _security(listener: Listener, common: Security, per_listener: bool) -> Security:
    """What holds for a listener: what is about it, or what is about all."""
    own = listener.security
    if per_listener:
        return Security(own.lines, own.guards + common.guards)
    return Security(common.lines | own.lines, common.guards)


def _missing(listener: Listener, paths: Paths) -> tuple[Line, str] | None:
    """A line that names a file that is not there, which Mosquitto would read and Sluice would not."""
    if listener.by_certificate or not {"certfile", "keyfile"} <= listener.lines.keys():
        return None
    for option in ("cafile", "crlfile"):
        line = listener.lines.get(option)
        if line is not None and not is_there(Path(paths.of(line))):
            return line, f"there is no file {paths.of(line)!r}, without which Mosquitto does not start. {_LISTENER_OUT}"
    return None
