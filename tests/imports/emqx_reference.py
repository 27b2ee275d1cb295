"""What EMQX permits by its files: authenticators in a chain, and sources of rules, as its documents say."""

import re
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

from tests.imports.emqx_tokens import Tokens

SCRAM: Final = "mechanism = scram, backend = built_in_database"
"""It is asked only about its own method."""

FOREIGN: Final = "exhook.servers = [{ url = x }]"
BY_USERS: Final = "mqtt.use_username_as_clientid = true"
NOT_ASKED: Final = "listeners.tcp.default.enable_authn = false"
APART: Final = "listeners.tcp.default.mountpoint = m"

AUTHENTICATOR_OFF: Final = "authentication { 1 { mechanism = jwt, enable = false } }"
SOURCE_OFF: Final = "authorization { sources { 1 { type = file, enable = false } } }"

Term = Any
"""A term of Erlang: strings are Texts, atoms strings, tuples and lists as in Python."""


@dataclass(frozen=True)
class Text:
    """A string of Erlang."""

    text: str


@dataclass(frozen=True)
class Client:
    """A client, whose user name is checked if EMQX has an authenticator."""

    user: str | None
    client_id: str
    host: str


@dataclass(frozen=True)
class Source:
    """A source of rules."""

    kind: str
    rules: tuple[Term, ...] = ()
    enabled: bool = True


@dataclass(frozen=True)
class Authenticator:
    """One of EMQX's chain."""

    own: str | Tokens
    """Its settings."""
    enabled: bool = True

    def written(self, folder: Path) -> str:
        """An item of the list."""
        own = self.own.written(folder) if isinstance(self.own, Tokens) else self.own
        return f"{{ {own}, enable = {str(self.enabled).lower()} }}"


@dataclass(frozen=True)
class Original:
    """What EMQX is configured to do."""

    authenticators: tuple[Authenticator, ...]
    no_match: str | None
    sources: tuple[Source, ...] | None
    """None: emqx.conf names none, so that acl.conf counts, whose rules `default` are."""
    default: tuple[Term, ...] | None
    """None: there is no such file here, and nobody knows what is in it."""
    more: str = ""
    """Other settings."""
    part: str = ""
    """What changes a part of a list."""
    in_two_files: bool = False
    """Whether that is in a file of its own."""
    by_number: bool = False
    """Whether the authenticators are no list, but have numbers, the last one first."""

    def write(self, folder: Path) -> None:
        """Write emqx.conf and the files of rules."""
        lines = [self.more]
        if self.authenticators:
            chain = [each.written(folder) for each in self.authenticators]
            by_number = ", ".join(f"{number} {each}" for number, each in reversed([*enumerate(chain, 1)]))
            lines.append(
                f"authentication {{ {by_number} }}" if self.by_number else f"authentication = [{', '.join(chain)}]"
            )
        if self.no_match is not None:
            lines.append(f"authorization.no_match = {self.no_match}")
        if self.sources is not None:
            listed = []
            for number, source in enumerate(self.sources):
                (folder / f"acl{number}.conf").write_text(_file(source.rules))
                path = f'path = "${{EMQX_ETC_DIR}}/acl{number}.conf", ' if source.kind == "file" else ""
                listed.append(f"{{ type = {source.kind}, {path}enable = {str(source.enabled).lower()} }}")
            lines.append(f"authorization.sources = [{', '.join(listed)}]")
        if self.default is not None:
            (folder / "acl.conf").write_text(_file(self.default))
        files = [lines, [self.part]] if self.in_two_files else [[*lines, self.part]]
        for name, each in zip(("emqx.conf", "cluster.hocon"), reversed(files), strict=False):
            (folder / name).write_text("\n".join(each) + "\n")

    @property
    def asked(self) -> tuple[str | Tokens, ...]:
        """The authenticators that are on, in order."""
        changed = self.part == AUTHENTICATOR_OFF
        return tuple(each.own for each in self.authenticators[changed:] if each.enabled)

    @property
    def tokens(self) -> Tokens | None:
        """Those for tokens, if no authenticator before may refuse their clients."""
        first = next((each for each in self.asked if each != SCRAM), None)
        return first if isinstance(first, Tokens) else None

    @property
    def in_force(self) -> tuple[Source, ...] | None:
        """The sources of rules that are on; None: nobody knows."""
        if self.sources is not None:
            return tuple(each for each in self.sources[self.part == SOURCE_OFF :] if each.enabled)
        if self.part == SOURCE_OFF:
            return ()
        return None if self.default is None else (Source("file", self.default),)

    @property
    def lets_in(self) -> bool:
        """Whether clients without a user name, or with one that nobody checks, get in."""
        return not self.asked or self.more == NOT_ASKED

    def permits(self, who: Client, action: tuple[str, int, bool], topic: str) -> bool:
        """Whether it certainly does: what cannot be known counts as denied."""
        if self.more == FOREIGN:
            return False
        if self.more == BY_USERS:
            who = Client(who.user, who.user or who.client_id, who.host)
        sources = self.in_force
        if sources is None:
            return False
        for source in sources:
            if source.kind != "file":
                return False  # it may deny anything
            for rule in source.rules:
                permit, condition, about, topics = rule if len(rule) == 4 else (*rule, "all", "all")
                sure = bool(permit == "allow")
                if _about(about, action) and _is(condition, who, sure) and _on(topics, who, topic, sure):
                    return sure
        profile = any("security_profile" in str(rule) for source in sources for rule in source.rules)
        return self.no_match == "allow" or (self.no_match is None and not profile)


def _is(condition: Term, who: Client, sure: bool) -> bool:
    """Whether a condition holds; one that cannot be known is what makes the rule deny."""
    if condition == "all":
        return True
    kind, *values = condition
    if kind in ("user", "username", "client", "clientid"):
        name = who.user if kind in ("user", "username") else who.client_id
        if name is None:
            return False
        pattern = values[0]
        return name == pattern.text if isinstance(pattern, Text) else bool(re.search(pattern[1].text, name))
    if kind in ("ipaddr", "ipaddrs"):
        networks = values if kind == "ipaddr" else values[0]
        known = [ip_network(each.text, False) for each in networks if each.text != "nowhere"]
        return any(ip_address(who.host) in each for each in known)
    if kind in ("and", "or"):
        return (all if kind == "and" else any)(_is(each, who, sure) for each in values[0])
    return not sure


def _about(about: Term, action: tuple[str, int, bool]) -> bool:
    kind, options = about if isinstance(about, tuple) else (about, [])
    qos = [qos for name, value in options if name == "qos" for qos in (value if isinstance(value, list) else [value])]
    retain = next((value for name, value in options if name == "retain"), "all")
    if any(name == "qos" for name, _ in options) and action[1] not in qos:
        return False
    return kind in (action[0], "all") and (action[0] == "subscribe" or retain in ("all", str(action[2]).lower()))


def _on(topics: Term, who: Client, topic: str, sure: bool) -> bool:
    return topics == "all" or any(_matches(each, who, topic, sure) for each in topics)


def _matches(own: Term, who: Client, topic: str, sure: bool) -> bool:
    """Whether a topic of a rule matches; `$` is no exception in EMQX."""
    text = own[1].text if isinstance(own, tuple) else own.text
    if isinstance(own, tuple) or text.startswith("eq "):
        return bool(text.removeprefix("eq ") == topic)
    for name, value in (("${username}", who.user), ("${clientid}", who.client_id)):
        if name in text and value is None:
            return False
        text = text.replace(name, value or "")
    levels, found = text.split("/"), topic.split("/")
    if any("${" in level for level in levels) and sure:
        return False
    for position, level in enumerate(levels):
        if level == "#":
            return True
        if position == len(found) or (level not in ("+", found[position]) and "${" not in level):
            return False
    return len(levels) == len(found)


# -- as text


def _file(rules: tuple[Term, ...]) -> str:
    return "".join(f"{_written(rule)}.\n" for rule in rules)


def _written(term: Term) -> str:
    if isinstance(term, Text):
        return '"' + term.text.replace("\\", "\\\\") + '"'
    if isinstance(term, tuple | list):
        inside = ", ".join(map(_written, term))
        return f"{{{inside}}}" if isinstance(term, tuple) else f"[{inside}]"
    return f"'{term}'" if term in ("and", "or") else str(term)
