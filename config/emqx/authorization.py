"""What clients may do: EMQX's sources of authorization, of which the first that says something decides."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.emqx import acl, values
from config.emqx.listener import file_of
from config.emqx.reading import PART_OF_A_LIST, Setting
from config.files import is_there
from config.imported.draft import Finding, Line, Section, Value

_ACL: Final = "acl.conf"
_PACKAGED: Final = {"/var/lib/emqx/configs": "/etc/emqx"}
"""Where EMQX's packages have what they write, and where they have acl.conf."""

_NOT_TAKEN: Final = "not taken over: write authorization.rules. Until then what no rule allows is denied"
_BEHIND: Final = "it comes behind a source that is not taken over, and may deny what this one allows"
_DEFAULT: Final = "EMQX's default source of rules"
_EMPTY: Final = "EMQX without sources goes by no_match alone"
_DOLLAR: Final = "EMQX's + and # match topics that begin with $ too, ours do not: only those of $SYS are allowed"
_LEGACY: Final = "EMQX's default"
_HARDENED: Final = "EMQX's default with the security profile hardened"


class Authorization:
    """The settings under `authorization`, and the rules of acl.conf."""

    def __init__(self, folder: Path) -> None:
        """`folder`: where emqx.conf is."""
        self._folder = folder
        self._sources: dict[str, dict[str, Setting]] = {}
        self._empty: Setting | None = None
        self._no_match: Setting | None = None
        self._deny_action: Setting | None = None
        self.doubts: list[Setting] = []
        """Settings of what may deny anything, and is not taken over."""

    def take(self, setting: Setting) -> bool:
        """Take a setting; returns whether it is one. Raises ValueError."""
        _, name, *rest = (*setting.path, "")
        if name == "sources" and len(setting.path) > 3:
            self._sources.setdefault(rest[0], {})[".".join(rest[1:-1])] = setting
        elif name == "sources" and setting.found == []:
            self._empty = setting
        elif name == "no_match":
            if setting.value not in ("allow", "deny"):
                self.doubts.append(setting)
                raise ValueError("write allow or deny")
            self._no_match = setting
        elif name == "deny_action":
            self._deny_action = setting
        else:
            return False
        return True

    def put(self, root: Section, findings: list[Finding], known: acl.Known) -> None:
        """Set the keys."""
        section = root.section("authorization")
        if self._deny_action is not None:
            closes = self._deny_action.value == "disconnect"
            section.put("refused_publish", "close" if closes else "acknowledge", self._deny_action)
        read: list[tuple[Path, acl.Read]] = []
        closed: Line | None = self.doubts[0] if self.doubts else None
        for line, file in self._in_order(root, findings):
            if closed is not None:
                findings.append(Finding(line, _BEHIND))
            elif file is None:
                closed = line
                findings.append(Finding(line, _NOT_TAKEN, wrong=True))
            else:
                try:
                    read += [(file, each) for each in acl.rules(file.read_text(errors="surrogateescape"), known)]
                except (OSError, ValueError) as error:
                    closed = line
                    why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
                    findings.append(Finding(line, f"{file}: {why}; {_NOT_TAKEN}", wrong=True))
        hardened = known.profile == "hardened" or any(each.about_profile for _, each in read)
        acl.deny_dollars([rule for _, each in read for rule in each.rules])
        rules = [made for file, each in read for made in _sections(each, file, findings)]
        self._put_default(section, rules, closed, _HARDENED if hardened else _LEGACY)
        if rules:
            section.keys["rules"] = rules

    def _in_order(self, root: Section, findings: list[Finding]) -> Iterator[tuple[Line, Path | None]]:
        """The sources that are on: a line that stands for each, and its file if it is one."""
        if self._empty is not None and not self._sources:
            root.remarks.append(f"{self._empty}: {_EMPTY}")
        elif not self._sources:
            file = self._default_file()
            yield Line(file, 1, _DEFAULT), file
        for _, found in sorted(self._sources.items(), key=lambda each: int(each[0]) if each[0].isdigit() else 0):
            if "type" not in found or "1" not in self._sources:
                raise ValueError(f"{next(iter(found.values()))}: {PART_OF_A_LIST}")
            if "enable" in found and not values.boolean(found["enable"].found):
                findings += [Finding(each, "it is off") for each in found.values()]
                continue
            is_file = "path" in found and "type" in found and found["type"].value == "file"
            first = found["path"] if is_file else next(iter(found.values()))
            findings += [Finding(each, "part of it") for each in found.values() if each is not first and not is_file]
            root.remarks += [f"{each}: {_ACL}" for each in found.values() if is_file]
            yield first, Path(file_of(self._folder, first.value)) if is_file else None

    def _default_file(self) -> Path:
        folder = self._folder.absolute()
        places = [folder / _ACL, folder.parent.parent / "etc" / _ACL]
        if str(folder) in _PACKAGED:
            places.append(Path(_PACKAGED[str(folder)]) / _ACL)
        return next((each for each in places if is_there(each)), places[0])

    def _put_default(self, section: Section, rules: list[Section], closed: Line | None, source: str) -> None:
        """What applies where no rule matches.

        In EMQX `+` and `#` match topics that begin with $ too: what a rule denies so must not be allowed at the end.
        """
        ends = [number for number, rule in enumerate(rules) if _is_for_everything(rule)]
        last = rules[ends[0]] if ends else None
        if last is not None:
            del rules[ends[0] + (last.get("permit") == "allow") :]
        if closed is not None:
            section.put("default", "deny", closed)
        elif last is not None and last.get("permit") == "deny":
            section.put("default", "deny", *_sources(last))
        elif self._no_match is not None:
            section.put("default", self._no_match.value, self._no_match)
        else:
            section.put("default", "deny" if source == _HARDENED else "allow", source)
        if section.get("default") == "allow" and any(map(_denies_wildcards, rules)):
            if last is None:
                everything = Section()
                everything.put("permit", "allow", self._no_match or source)
                everything.put("topics", list(acl.EVERYTHING))
                rules.append(everything)
            section.keys.pop("default")
            section.put("default", "deny", _DOLLAR)


def _sections(read: acl.Read, file: Path, findings: list[Finding]) -> Iterator[Section]:
    """Our rules of a term."""
    line = Line(file, read.line, " ".join(read.source.split()))
    if read.wrong:
        changed = "denies more" if read.denies else "allows less"
        findings.append(Finding(line, f"it {changed}: {'; '.join(read.wrong)}", wrong=True))
    if read.left:
        findings.append(Finding(line, "; ".join(read.left)))
    for rule in read.rules:
        section = Section()
        for number, (key, value) in enumerate(rule.items()):
            section.put(key, value, *([] if number else [line]))
        yield section


def _sources(rule: Section) -> list[str]:
    return [each.source for each in rule.keys.values() if isinstance(each, Value) and each.source]


def _topics(rule: Section) -> list[str]:
    topics = rule.get("topics")
    assert isinstance(topics, list)  # as acl.py has them
    return topics


def _denies_wildcards(rule: Section) -> bool:
    return rule.get("permit") == "deny" and any(each[0] in "+#" for each in _topics(rule))


def _is_for_everything(rule: Section) -> bool:
    """Whether it is about every client and topic."""
    return rule.keys.keys() == {"permit", "topics"} and _topics(rule) == list(acl.EVERYTHING)


def security_profile(folder: Path) -> str | None:
    """The security profile that emqx.env beside emqx.conf sets; None: it says nothing."""
    try:
        text = (folder / "emqx.env").read_text(errors="replace")
    except OSError:
        return None
    found = re.findall(r"^\s*(?:export\s+)?EMQX_SECURITY_PROFILE=[\"']?(legacy|hardened)\b", text, re.MULTILINE)
    return found[-1] if found else None
