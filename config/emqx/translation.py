"""Translates the settings of emqx.conf."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from config.emqx import options, values
from config.emqx.access import Access, Algorithms
from config.emqx.acl import Known, Names
from config.emqx.authorization import Authorization, security_profile
from config.emqx.bridges import Bridges
from config.emqx.listener import KINDS, PORTS, Listener, off
from config.emqx.reading import INCLUDE, Setting
from config.imported.draft import Finding, Section, told

_DEFAULTS: Final = ("tcp", "ws")
_NO_DEFAULT: Final = (
    "EMQX listens on {port} ({kind}) too by default, with a certificate that everybody has: "
    "add a listener with one of yours"
)
_SUM: Final = "max_connections is one limit for all listeners together"
_MAY_DENY: Final = "as it may deny anything, nothing is allowed until you write authorization.rules"
_NOT_INCLUDED: Final = "what it sets, perhaps who may log in, is not taken over: make it readable"
_OFF: Final = "the listener is off"
_GONE: Final = ("marked_for_deletion", "")
"""What EMQX's dashboard writes in place of a listener that was removed, and null."""
_ONE_RATE: Final = "producer_max_bytes is one limit for all listeners, or none"
_NO_LISTENER: Final = "no listener that is opened is in this zone"
_NOT_ALL: Final = "mqtt.max_connections is one limit for all listeners, and not each has one"


@dataclass
class Translated:
    """A new configuration, and what has to be said about it."""

    section: Section
    findings: list[Finding]
    users: Path | None = None
    """A file of users that has to be made, without any: EMQX's own cannot be read."""
    passwords: Mapping[Path, str] = field(default_factory=dict)
    """Files of passwords that have to be made, with what is in them."""


def translate(
    settings: Sequence[Setting], folder: Path, users: Path, journal: Path, algorithms: Algorithms
) -> Translated:
    """Translate settings. `folder`: where emqx.conf is; `users`: where a file without users would be; `journal`: a
    directory for the journal; `algorithms`: those of a public key. Raises ValueError if nothing could be served."""
    translation = _Translation(folder, users, journal, algorithms)
    for setting in settings:
        translation.take(setting)
    return translation.end()


class _Translation:
    """The state while settings are read."""

    def __init__(self, folder: Path, users: Path, journal: Path, algorithms: Algorithms) -> None:
        self._folder = folder
        self._users = users
        self._bridges = Bridges(folder, users, self._leave)
        self._journal = journal
        self._profile = security_profile(folder)
        self._hardened = self._profile == "hardened"
        self._root = Section()
        self._findings: list[Finding] = []
        self._listeners: dict[tuple[str, str], Listener] = {}
        self._access = Access(folder, algorithms)
        self._authorization = Authorization(folder)
        self._foreign: set[str] = set()
        """Keys of rules whose names EMQX makes of something else."""
        self._certificate_user: Setting | None = None
        self._whole: dict[str, list[Setting]] = {}
        self._on_disk: list[Setting] = []
        self._zones: dict[str, list[Setting]] = {}

    # -- setting by setting

    def take(self, setting: Setting) -> None:
        """Take one setting over, or say why not."""
        try:
            self._take(setting)
        except ValueError as error:
            self._leave(setting, str(error), wrong=True)

    def _take(self, setting: Setting) -> None:
        name, first = setting.name, setting.path[0]
        if first == INCLUDE:
            self._leave(setting, f"{setting.found}; {_NOT_INCLUDED}", wrong=True)
            self._authorization.doubts.append(setting)
        elif name in options.KEYS:
            key = options.KEYS[name]
            self._root.section(key.section).put(key.key, key.read(setting.found), setting)
        elif first == "zones" and ".".join(setting.path[2:]) in options.OF_ZONES:
            options.OF_ZONES[".".join(setting.path[2:])].read(setting.found)
            self._zones.setdefault(setting.path[1], []).append(setting)
        elif first == "listeners" and len(setting.path) > 2:
            self._about_listener(setting)
        elif self._bridges.take(setting):
            return
        elif first == "authentication" and setting.found != []:
            self._access.take(setting)
        elif first == "authorization" and len(setting.path) > 1 and self._authorization.take(setting):
            return
        elif name in options.NEUTRAL and setting.found == options.NEUTRAL[name]:
            self._root.remarks.append(f"{setting}: as Sluice has it")
        elif not self._about_broker(name, setting):
            self._without_counterpart(setting)

    def _about_broker(self, name: str, setting: Setting) -> bool:
        """Settings of the whole broker that need more than a key; returns whether it is one."""
        if name == "mqtt.max_subscriptions":
            limit = values.count()(setting.found)
            if limit != values.INFINITY:
                self._quota().put("max_subscriptions", limit, setting)
                return True
        elif name.startswith("mqtt.mqueue_priorities."):
            weight = values.whole(1, 255)(setting.found)
            entry = Section()
            entry.put("match", ".".join(setting.path[2:]), setting)
            entry.put("weight", weight)
            found = self._root.section("session").keys.setdefault("mqueue_priorities", [])
            assert isinstance(found, list)  # nothing else puts this key
            found.append(entry)
            return True
        elif (name, setting.value) == ("mqtt.shared_subscription_strategy", "hash_clientid"):
            self._root.section("session").put("mqueue_fairness", "publisher", setting)
            self._root.section("session").put("group_order", "key")
            return True
        elif name == "mqtt.peer_cert_as_username" and setting.value == "cn":
            self._certificate_user = setting
            return True
        elif name == "log.console.level":
            if setting.value not in options.LEVELS:
                raise ValueError(f"write one of {', '.join(options.LEVELS)}")
            self._root.section("log").put("level", options.LEVELS[setting.value], setting)
            return True
        elif name == "log.console.formatter":
            self._root.section("log").put("format", "json" if setting.value == "json" else "console", setting)
            return True
        elif (name, setting.value) in (("durable_sessions.enable", "true"), ("retainer.backend.storage_type", "disc")):
            self._on_disk.append(setting)
            return True
        return False

    def _about_listener(self, setting: Setting) -> None:
        _, kind, name, *rest = setting.path
        if kind not in KINDS:
            self._leave(setting, "Sluice has TCP, TLS, WebSocket, WSS and Unix sockets")
            return
        listener = self._listeners.setdefault((kind, name), Listener(kind, name, self._folder, hardened=self._hardened))
        listener.settings[".".join(rest)] = setting

    def _without_counterpart(self, setting: Setting) -> None:
        name = setting.name
        of_zone = ".".join(setting.path[2:]) if setting.path[0] == "zones" else name
        if of_zone in options.NAMES and not off(setting) and setting.value != "disabled":
            self._foreign.add(options.NAMES[of_zone])
            self._leave(setting, options.LEFT[of_zone], wrong=True)
            return
        if name.startswith("mqtt.") and name not in options.LEFT:
            self._leave(setting, "there is no such setting in Sluice", wrong=name.count(".") > 1)
            return
        found = options.reason(name, options.LEFT)
        if found is None:
            self._leave(setting, "EMQX has no such setting, or this import does not know it", wrong=True)
        elif found[0] in options.WHOLE:
            self._whole.setdefault(found[0], []).append(setting)
        else:
            self._leave(setting, found[1], wrong=found[0] in options.GUARDS and not off(setting))

    def _quota(self) -> Section:
        """The quota of all users."""
        found = self._root.keys.setdefault("quotas", [])
        assert isinstance(found, list)  # nothing else puts this key
        if not found:
            found.append(Section())
        return found[0]

    def _leave(self, setting: Setting, why: str, wrong: bool = False) -> None:
        self._findings.append(Finding(setting, why, wrong))

    # -- at the end

    def end(self) -> Translated:
        """Put together what the settings say."""
        for setting in self._bridges.others():
            self._without_counterpart(setting)
        for beginning, settings in self._whole.items():
            others = f" (and {len(settings) - 1} more under {beginning})" if len(settings) > 1 else ""
            denies = list(_denying(settings, options.DENY.get(beginning)))
            self._authorization.doubts += denies
            guards = bool(denies) or (beginning == "psk_authentication" and not all(map(off, settings)))
            why = f"{options.LEFT[beginning]}{others}" + (f"; {_MAY_DENY}" if denies else "")
            self._leave(denies[0] if denies else settings[0], why, wrong=guards)
        served = self._opened(self._served())
        sections = []
        for listener in served:
            try:
                section = listener.section(self._certificate_user, self._access.asks)
                listener.put_session(section, self._zones.get(listener.zone, []))
                sections.append(section)
            except ValueError as error:
                raise ValueError(f"listeners.{listener.kind}.{listener.name}: {error}") from error
        self._put_limits(served)
        self._leave_zones(served)
        for listener in served:
            self._findings += listener.left()
        needs_users = self._access.put(self._root, self._findings, self._users, self._hardened)
        self._authorization.put(self._root, self._findings, self._known(served))
        self._bridges.put(self._root, allowed=not self._authorization.doubts)
        self._root.section("session").put("max_mqueue_bytes", values.INFINITY, "EMQX has no such limit")
        if self._on_disk:
            self._root.section("persistence").put("directory", str(self._journal), *self._on_disk)
        if self._certificate_user is not None and not any(each.kind in ("ssl", "wss") for each in served):
            self._leave(self._certificate_user, "no listener asks for certificates")
        ordered = Section()
        ordered.keys["allow_anonymous"] = self._root.keys.pop("allow_anonymous")
        ordered.keys["listeners"] = sections
        ordered.keys |= self._root.keys
        ordered.remarks = self._root.remarks + told(self._findings)
        return Translated(ordered, self._findings, self._users if needs_users else None, self._bridges.passwords)

    def _served(self) -> list[Listener]:
        """The listeners that EMQX opens: those named `default` without being told."""
        served = []
        for kind in KINDS:
            if (kind, "default") in self._listeners:
                continue
            if kind in _DEFAULTS:
                self._listeners[kind, "default"] = Listener(kind, "default", self._folder, hardened=self._hardened)
            else:
                self._root.remarks.append(_NO_DEFAULT.format(port=PORTS[kind], kind=kind))
        for listener in sorted(self._listeners.values(), key=lambda each: KINDS.index(each.kind)):
            if listener.off:
                for name, each in listener.settings.items():
                    self._findings.append(Finding(each, _OFF, wrong=not name and each.value not in _GONE))
            else:
                served.append(listener)
        if not served:
            raise ValueError("all listeners are off")
        return served

    def _opened(self, served: Sequence[Listener]) -> list[Listener]:
        """Those of them that let nobody in whom EMQX keeps out."""
        opened = []
        for listener in served:
            found = listener.left_out(self._certificate_user, self._access.asks)
            self._findings += found
            if not found:
                opened.append(listener)
        if not opened:
            raise ValueError("\n".join(str(each) for each in self._findings if each.wrong))
        return opened

    def _leave_zones(self, served: Sequence[Listener]) -> None:
        """Zones without listeners; a listener's own zone is said with its settings."""
        used = {each.zone for each in served}
        for each in served:
            if each.zone in self._zones:
                each.take("zone")
        for zone, settings in self._zones.items():
            if zone not in used:
                self._findings += [Finding(setting, _NO_LISTENER) for setting in settings]

    def _put_limits(self, served: Sequence[Listener]) -> None:
        """What EMQX has for each listener, and Sluice for all of them."""
        found = [setting for each in served if (setting := each.take("bytes_rate")) is not None]
        if found and (value := values.byte_rate(found[0].found)) != values.INFINITY:
            self._quota().put("producer_max_bytes", value, found[0])
            found = found[1:]
        self._findings += [Finding(each, _ONE_RATE) for each in found]
        limits = [setting for each in served if (setting := each.take("max_connections")) is not None]
        numbers = [values.count()(each.found) for each in limits]
        whole = [each for each in numbers if isinstance(each, int)]
        if whole and len(whole) == len(served):
            self._root.section("mqtt").put("max_connections", sum(whole), *limits)
            if len(served) > 1:
                self._root.section("mqtt").remarks.append(_SUM)
        else:
            self._findings += [Finding(each, _NOT_ALL) for each in limits]

    def _known(self, served: Sequence[Listener]) -> Known:
        """How the names that rules have are known."""
        users = Names.SURE if self._access.asks or all(each.names_users for each in served) else Names.CLAIMED
        return Known(
            Names.OTHERS if "users" in self._foreign else users,
            Names.OTHERS if "client_ids" in self._foreign else Names.SURE,
            self._profile,
        )


def _denying(settings: Sequence[Setting], part: str | None) -> Iterator[Setting]:
    """Those below this part, without items that are off."""
    gone = {each.path[:3] for each in settings if each.path[3:] in (("enable",), ("enabled",)) and off(each)}
    for setting in settings:
        if setting.path[1:2] == (part,) and not off(setting) and setting.path[:3] not in gone:
            yield setting
