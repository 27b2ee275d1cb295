"""Who may connect and what they may do, of all listeners and of each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from config.imported.draft import Line, Section
from config.mosquitto.lines import path_of
from config.mosquitto.listener import CERTIFICATE_ALONE, Listener, Security

NOBODY: Final = "Mosquitto lets nobody in: it has neither users nor allow_anonymous. `sluice user add` adds users"
ONE_FILE: Final = "Sluice has one {option} for all listeners, the first"
ALL_LISTENERS: Final = (
    "Mosquitto lets these users in on its listener, and nobody on {others}; Sluice does on all listeners, "
    "and a rule denies them everything on {others}"
)
NOBODY_THERE: Final = "Mosquitto lets nobody in on a listener without users and allow_anonymous"

Tell = Callable[[Line, str], None]
"""Says on the screen that access is not as it was, and why."""

_EVERYTHING: Final = ["#", "$SYS/#"]


def put_permissions(
    root: Section,
    served: Sequence[tuple[Listener, Section]],
    common: Security,
    per_listener: bool,
    local_only: bool,
    users: Path,
    tell: Tell,
) -> bool:
    """Set the keys, in `root` and in the sections of listeners. Returns whether a file without users is needed."""
    own = [_of(listener, common, per_listener) for listener, _ in served]
    anonymous = [each.anonymous(local_only) for each in own]
    passwords = [each.lines.get("password_file") for each in own]
    _put_file(root.section("authentication"), "password_file", passwords, tell)
    _put_anonymous(root, served, common, own, anonymous)
    for (listener, _), allowed in zip(served, anonymous, strict=True):
        if listener.by_certificate and not listener.named_by_certificate and not allowed:
            tell(listener.lines["require_certificate"], CERTIFICATE_ALONE)
    has_users = "password_file" in root.section("authentication").keys
    closed = [
        not allowed and not listener.by_certificate for (listener, _), allowed in zip(served, anonymous, strict=True)
    ]
    file = next((line for line in passwords if line is not None), None)
    names = [str(part.get("name")) for _, part in served]
    strange = {
        name
        for name, line, shut in zip(names, passwords, closed, strict=True)
        if shut and (line is None or file is None or path_of(line) != path_of(file))
    }
    nobody = [name for name, line in zip(names, passwords, strict=True) if name in strange and line is None]
    if file is not None and nobody:
        tell(file, ALL_LISTENERS.format(others=", ".join(nobody)))
    _put_acl(root, names, own, strange, nobody if has_users else [], tell)
    if has_users or not any(closed):
        return False
    root.section("authentication").put("password_file", str(users))
    root.section("authentication").remarks.append(NOBODY)
    return True


def _of(listener: Listener, common: Security, per_listener: bool) -> Security:
    """What holds for a listener."""
    if per_listener:
        return listener.security
    return Security(common.lines | listener.security.lines)


def _put_anonymous(
    root: Section,
    served: Sequence[tuple[Listener, Section]],
    common: Security,
    own: Sequence[Security],
    anonymous: Sequence[bool],
) -> None:
    common_line = common.lines.get("allow_anonymous")
    if common_line is not None and not any(each.lines.get("allow_anonymous") is common_line for each in own):
        root.remarks.append(f"{common_line}: each listener says so itself")
    sources = [each.lines.get("allow_anonymous", "Mosquitto's default") for each in own]
    if len(set(anonymous)) == 1:
        root.put("allow_anonymous", anonymous[0], *sources)
        return
    root.put("allow_anonymous", False)
    for (_, section), source, allowed in zip(served, sources, anonymous, strict=True):
        section.put("allow_anonymous", allowed, source)


def _put_file(section: Section, option: str, lines: Sequence[Line | None], tell: Tell) -> None:
    """The first file; others are told."""
    given = [line for line in dict.fromkeys(lines) if line is not None]
    if not given:
        return
    section.put(option, path_of(given[0]), given[0])
    for line in given[1:]:
        if path_of(line) != path_of(given[0]):
            tell(line, ONE_FILE.format(option=option))


def _put_acl(
    root: Section, names: Sequence[str], own: Sequence[Security], strange: set[str], denied: Sequence[str], tell: Tell
) -> None:
    """The rules. `strange`: listeners that let in none of the users that are taken over: without a file of rules those
    may not do everything there; `denied`: those that let nobody in, while there are users."""
    section = root.section("authorization")
    lines = [each.lines.get("acl_file") for each in own]
    _put_file(section, "acl_file", lines, tell)
    if not denied and not any(lines):
        return
    free = [name for name, line in zip(names, lines, strict=True) if line is None and name not in strange]
    rules = []
    sources = []
    for permit, listeners, source in (("deny", denied, NOBODY_THERE), ("allow", free, "listeners without an acl_file")):
        if listeners:
            rules.append({"permit": permit, "topics": _EVERYTHING, "listeners": listeners})
            sources.append(source)
    if rules:
        section.put("rules", rules, *sources)
