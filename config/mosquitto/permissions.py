"""Who may connect and what they may do, of all listeners and of each.

Where Mosquitto asks what Sluice does not have, a rule denies everything on the listener: never more than in Mosquitto.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.imported.draft import Line, Section
from config.mosquitto import acl
from config.mosquitto.listener import NO_NAMES, Listener, Security
from config.mosquitto.paths import Paths

NOBODY: Final = "nobody is let in without a user name and password, and there are no users: `sluice user add` adds some"
ONE_FILE: Final = "Sluice has one {option} for all listeners, the first; a rule denies everything on {name}"
ALL_LISTENERS: Final = (
    "Mosquitto lets these users in on its listener, Sluice on all. As Mosquitto lets nobody in elsewhere, a rule "
    "denies everything on {others}"
)
CLAIMED: Final = (
    "without a password_file Mosquitto believes the user name that a client claims. Here clients with one are denied "
    "until `sluice user add` gives it a password"
)
DECIDED: Final = "Sluice does not have what decides there"
NOBODY_THERE: Final = "Mosquitto lets nobody in there, or asks what Sluice does not have"
BESIDE: Final = "Mosquitto asks for a password beside the certificate"
FREE: Final = "listeners without an acl_file"

Tell = Callable[[Line, str], None]
"""Says on the screen that access is not as it was, and why."""

_EVERYTHING: Final = ["#", "$SYS/#"]


@dataclass
class _Door:
    """One listener, and what holds for who comes in there."""

    listener: Listener
    section: Section
    security: Security
    anonymous: bool
    denied: bool = False
    """Whether a rule denies everything there."""
    closed: bool = False
    """Whether that has changed `anonymous`."""

    @property
    def name(self) -> str:
        return str(self.section.get("name"))

    @property
    def asks(self) -> bool:
        """Whether Mosquitto asks for user name and password there."""
        return not self.anonymous and not self.listener.named_by_certificate

    @property
    def is_shut(self) -> bool:
        """Whether Mosquitto lets nobody in there: it asks for a password, and there are none."""
        return self.asks and self.file("password_file") is None

    def file(self, option: str) -> Line | None:
        """The line that names a file."""
        return self.security.lines.get(option)


class Permissions:
    """Takes over who may connect and what they may do."""

    def __init__(self, root: Section, paths: Paths, tell: Tell) -> None:
        self._root = root
        self._paths = paths
        self._tell = tell

    def put(self, served: Sequence[tuple[Listener, Section, Security]], local_only: bool, users: Path) -> bool:
        """Set the keys, in the root and in the sections of listeners. Returns whether a file without users is needed.

        `served`: with what holds on each listener; `local_only`: Mosquitto listens on loopback only, and lets all in.
        """
        doors = [_Door(*each, each[2].anonymous(local_only)) for each in served]
        for door in doors:
            self._deny_what_is_guarded(door)
        self._put_file("authentication", "password_file", doors)
        self._put_file("authorization", "acl_file", doors)
        authentication = self._root.section("authentication")
        has_users = "password_file" in authentication.keys
        self._deny_nobody(doors, has_users)
        claimed = [self._claims(door) for door in doors]
        self._put_anonymous(doors)
        self._put_rules(doors)
        if has_users or not (any(each.asks for each in doors) or any(claimed)):
            return False
        authentication.put("password_file", str(users))
        authentication.remarks.append(NOBODY)
        return True

    def _deny_what_is_guarded(self, door: _Door) -> None:
        """Something that Sluice does not have decides there; the line itself is told where it is read."""
        unnamed = door.listener.unnamed
        if unnamed is not None:
            self._tell(unnamed, NO_NAMES)
        if unnamed is not None or door.listener.guards or door.security.guards:
            self._deny(door)

    def _deny(self, door: _Door) -> None:
        door.closed = door.closed or door.anonymous
        door.denied = True
        door.anonymous = False

    def _put_file(self, section: str, option: str, doors: Sequence[_Door]) -> None:
        """The first file, of a listener where anything is allowed if there is one; no other one lets anybody in."""
        lines = {door.name: door.file(option) for door in sorted(doors, key=lambda door: door.denied)}
        given = list(dict.fromkeys(line for line in lines.values() if line is not None))
        if not given:
            return
        path = self._paths.of(given[0])
        self._root.section(section).put(option, path, given[0])
        for door in doors:
            line = door.file(option)
            if line is not None and self._paths.of(line) != path:
                self._tell(line, ONE_FILE.format(option=option, name=door.name))
                self._deny(door)

    def _deny_nobody(self, doors: Sequence[_Door], has_users: bool) -> None:
        """On these listeners Mosquitto lets nobody in, but Sluice would: users of others."""
        shut = [door for door in doors if door.is_shut and not door.denied]
        if not (has_users and shut):
            return
        first = next(line for line in (door.file("password_file") for door in doors) if line is not None)
        self._tell(first, ALL_LISTENERS.format(others=", ".join(door.name for door in shut)))
        for door in shut:
            door.denied = True

    def _claims(self, door: _Door) -> bool:
        """Whether clients get rights there by a name that they only claim."""
        line = door.file("acl_file")
        if line is None or not door.anonymous or door.listener.named_by_certificate:
            return False
        if door.file("password_file") is not None or not acl.look(Path(self._paths.of(line))).names:
            return False
        self._tell(line, CLAIMED)
        return True

    def _put_anonymous(self, doors: Sequence[_Door]) -> None:
        sources = []
        for door in doors:
            source = str(door.file("allow_anonymous") or "Mosquitto's default")
            sources.append(f"{source}: {DECIDED}" if door.closed else source)
        same = len({door.anonymous for door in doors}) == 1
        self._root.put("allow_anonymous", doors[0].anonymous if same else False, *(sources if same else []))
        for door, source in zip(doors, sources, strict=True):
            beside = door.asks and door.listener.by_certificate
            if beside or not same:
                door.section.put("allow_anonymous", door.anonymous, source, *([BESIDE] if beside else []))

    def _put_rules(self, doors: Sequence[_Door]) -> None:
        """The rules before those of the ACL file."""
        denied = [door.name for door in doors if door.denied]
        # Where nobody gets in no rule has to say so.
        free = [door.name for door in doors if not (door.denied or door.is_shut or door.file("acl_file"))]
        authorization = self._root.section("authorization")
        if not denied and "acl_file" not in authorization.keys:
            return
        file = authorization.get("acl_file")
        hidden = [] if file is None else acl.look(Path(str(file))).hidden
        rules: list[Section] = []
        for permit, listeners, source in (("deny", denied, NOBODY_THERE), ("allow", free, FREE)):
            if listeners:
                rule = Section()
                rule.put("permit", permit, source)
                rule.put("topics", list(dict.fromkeys([*_EVERYTHING, *hidden])))
                rule.put("listeners", listeners)
                rules.append(rule)
        if rules:
            authorization.keys["rules"] = rules
            authorization.put("default", "deny", "what no rule is about")
