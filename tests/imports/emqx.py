"""Generated pairs of emqx.conf and acl.conf: what EMQX permits by them, and what the import of them permits."""

import re
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from ipaddress import ip_address, ip_network
from itertools import product
from pathlib import Path
from typing import Any, Final

import typer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

import config
from broker.auth.authorizer import Authorizer
from broker.auth.permissions import Permissions, Who
from broker.cli.importing import import_emqx
from tests.imports import emqx_tokens
from tests.imports.emqx_tokens import Tokens, tokens

LEVELS: Final = ("a", "b", "ann", "dev.1", "$x", "all", "eq")
PLACES: Final = (
    "${username}",
    "${clientid}",
    "${client_attrs.x}",
    "${cert_common_name}",
    "${zone}",
    "{username}",
    "%c",
)
NAMES: Final = ("ann", "bob", "dev.1", "devx1")
REGEXES: Final = ("^ann$", "^dev.1$", "^dev", "b$", "^(ann|bob)$")
ADDRESSES: Final = ("127.0.0.1", "10.1.2.3")
NETWORKS: Final = (*ADDRESSES, "10.0.0.0/8", "10.1.2.3/8", "::1", "nowhere")
TOPICS: Final = (
    *LEVELS,
    *map("/".join, product(("a", "$x", "all"), ("a", "b", "ann", "dev.1", "eq a"))),
    *("ann/a", "dev.1/b", "devx1/ann", "$SYS/a", "a/b/a", "xann"),
)
ACTIONS: Final = tuple(
    (kind, qos, retain) for kind in ("publish", "subscribe") for qos in (0, 2) for retain in (False, True)
)

FOREIGN: Final = "exhook.servers = [{ url = x }]"
BY_USERS: Final = "mqtt.use_username_as_clientid = true"
NOT_ASKED: Final = "listeners.tcp.default.enable_authn = false"
APART: Final = "listeners.tcp.default.mountpoint = m"
MORE: Final = ("", "", "", "", FOREIGN, BY_USERS, NOT_ASKED, APART)

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


CLIENTS: Final = (
    *(Client(*each) for each in product((None, *NAMES[1:3]), ("ann", "devx1"), ADDRESSES)),
    *(Client("+", "ann", ADDRESSES[0]), Client("ann", "#", ADDRESSES[1]), Client("bob", "+", ADDRESSES[0])),
)


@dataclass(frozen=True)
class Source:
    """A source of rules."""

    kind: str
    rules: tuple[Term, ...] = ()
    enabled: bool = True


@dataclass(frozen=True)
class Original:
    """What EMQX is configured to do."""

    authenticator: str | Tokens | None
    no_match: str | None
    sources: tuple[Source, ...] | None
    """None: emqx.conf names none, so that acl.conf counts, whose rules `default` are."""
    default: tuple[Term, ...] | None
    """None: there is no such file here, and nobody knows what is in it."""
    more: str = ""
    """Other settings."""

    def write(self, folder: Path) -> None:
        """Write emqx.conf and the files of rules."""
        lines = [self.more]
        if self.authenticator is not None:
            written = (
                self.authenticator.written(folder) if isinstance(self.authenticator, Tokens) else self.authenticator
            )
            lines.append(f"authentication = [{{ {written} }}]")
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
        (folder / "emqx.conf").write_text("\n".join(lines) + "\n")

    @property
    def lets_in(self) -> bool:
        """Whether clients without a user name, or with one that nobody checks, get in."""
        return self.authenticator is None or self.more == NOT_ASKED

    def permits(self, who: Client, action: tuple[str, int, bool], topic: str) -> bool:
        """Whether it certainly does: what cannot be known counts as denied."""
        if self.more == FOREIGN:
            return False
        if self.more == BY_USERS:
            who = Client(who.user, who.user or who.client_id, who.host)
        sources = self.sources
        if sources is None:
            if self.default is None:
                return False
            sources = (Source("file", self.default),)
        for source in sources:
            if source.enabled and source.kind != "file":
                return False  # it may deny anything
            for rule in source.rules if source.enabled else ():
                permit, condition, about, topics = rule if len(rule) == 4 else (*rule, "all", "all")
                sure = bool(permit == "allow")
                if _about(about, action) and _is(condition, who, sure) and _on(topics, who, topic, sure):
                    return sure
        profile = any("security_profile" in str(rule) for source in sources if source.enabled for rule in source.rules)
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


# -- made at random


def _texts(*words: str) -> st.SearchStrategy[Term]:
    return st.sampled_from(words).map(Text)


def conditions() -> st.SearchStrategy[Term]:
    """About whom."""
    regexes = st.tuples(st.just("re"), _texts(*REGEXES))
    one = st.one_of(
        st.just("all"),
        st.tuples(st.sampled_from(("user", "username", "client", "clientid")), _texts(*NAMES, "*", "") | regexes),
        st.tuples(st.just("ipaddr"), _texts(*NETWORKS)),
        st.tuples(st.just("ipaddrs"), st.lists(_texts(*NETWORKS), max_size=2)),
        st.just(("client_attr", Text("x"), Text("y"))),
        st.just(("security_profile", "legacy")),
        st.just(("zone", "default")),
    )
    return one | st.tuples(st.sampled_from(("and", "or")), st.lists(one, max_size=3))


def topics() -> st.SearchStrategy[Term]:
    """About what."""
    levels = st.lists(st.sampled_from((*LEVELS, "+", *PLACES)), max_size=1)
    ends = st.sampled_from((*LEVELS, "+", "#", "x${clientid}", *PLACES))
    filters = st.builds(lambda before, end: "/".join([*before, end]), levels, ends)
    text = filters.map(Text)
    exact = text.map(lambda each: ("eq", each)) | filters.map(lambda each: Text(f"eq {each}"))
    return st.just("all") | st.lists(text | text | exact | st.just(Text("$SYS/#")), min_size=1, max_size=3)


def actions() -> st.SearchStrategy[Term]:
    """Which actions."""
    qos = st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2)
    options = st.tuples(st.just("qos"), qos) | st.tuples(st.just("retain"), st.sampled_from(("true", "false", "all")))
    kinds = st.sampled_from(("all", "publish", "subscribe"))
    return kinds | kinds | st.tuples(kinds, st.lists(options, max_size=2))


def rules() -> st.SearchStrategy[tuple[Term, ...]]:
    """A file of rules, perhaps with an end as the shipped ones have it."""
    permits = st.sampled_from(("allow", "deny"))
    rule = st.tuples(permits, conditions(), actions(), topics())
    ends: list[Term] = [("allow", "all"), ("deny", "all"), ("allow", ("security_profile", "legacy"))]
    end = st.lists(st.sampled_from(ends), max_size=1)
    return st.builds(lambda own, last: (*own, *last), st.lists(rule, max_size=4), end)


def originals() -> st.SearchStrategy[Original]:
    """Any configuration."""
    kinds = st.sampled_from(("file", "file", "file", "http", "built_in_database"))
    sources = st.builds(
        lambda kind, own, on: Source(kind, own if kind == "file" else (), on),
        kinds,
        rules(),
        st.sampled_from((True, True, False)),
    )
    return st.builds(
        Original,
        st.sampled_from((None, None, "mechanism = password_based, backend = built_in_database")) | tokens(),
        st.sampled_from((None, "allow", "deny")),
        st.none() | st.lists(sources, max_size=3).map(tuple),
        st.none() | rules() | rules() | rules(),
        st.sampled_from(MORE),
    )


# -- the comparison


def compare(original: Original, folder: Path) -> None:
    """Import a configuration. AssertionError says where the result permits more."""
    original.write(folder)
    output = folder / "sluice.yaml"
    status, said = _imported(folder, output)
    assert output.exists() == (status in (0, 1)), said
    if status == 2:
        return
    loaded = config.load(output, environ={}).config
    told = f"{original}\n{output.read_text()}{said}"
    assert original.authenticator is None or loaded.allow_anonymous is False, told
    if isinstance(original.authenticator, Tokens):
        emqx_tokens.compare(original.authenticator, loaded, told)
    served = [each for each in loaded.listeners if each.name == "tcp-default"]
    assert (original.more == APART) == (not served), told
    assert not served or original.lets_in or served[0].allow_anonymous is not True, told
    authorizer = Authorizer(loaded)
    for who in CLIENTS:
        if not original.lets_in and who.user is None:
            continue
        # A name that nobody has checked is none.
        user = None if original.authenticator is None else who.user
        permissions = authorizer.permissions(Who(user, frozenset(), who.client_id, who.host, "tcp-default"))
        for action, topic in product(ACTIONS, TOPICS):
            if may(permissions, action, topic):
                assert original.permits(who, action, topic), f"{who} may {action} on {topic}\n{told}"


def _imported(folder: Path, output: Path) -> tuple[int, str]:
    """The exit status of the command, and what it prints."""
    said = StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            import_emqx([folder], output)
    except typer.Exit as end:
        return end.exit_code, said.getvalue()
    return 0, said.getvalue()


def may(permissions: Permissions, action: tuple[str, int, bool], topic: str) -> bool:
    """What the result permits."""
    kind, qos, retain = action
    if kind == "publish":
        return not topic.startswith("$SYS") and permissions.may_publish(topic.encode(), qos, retain)
    return permissions.may_receive(topic.encode(), qos)


def check(pairs: int, seed: int) -> int:
    """Play so many pairs; returns how many have been. AssertionError has the pair."""
    played = 0

    @seeded(seed)
    @settings(
        max_examples=pairs,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(originals())
    def play(original: Original) -> None:
        nonlocal played
        with tempfile.TemporaryDirectory(prefix="sluice-imports-") as folder:
            compare(original, Path(folder))
        played += 1

    play()
    return played
