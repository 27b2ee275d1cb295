"""Generated pairs of emqx.conf and acl.conf: what EMQX permits by them, and what the import of them permits."""

from itertools import product
from pathlib import Path
from typing import Final

from hypothesis import strategies as st

import config
from broker.auth.authorizer import Authorizer
from broker.auth.permissions import Permissions, Who
from tests.imports import emqx_tokens
from tests.imports.emqx_reference import (
    APART,
    AUTHENTICATOR_OFF,
    BY_USERS,
    FOREIGN,
    NOT_ASKED,
    SCRAM,
    SOURCE_OFF,
    Authenticator,
    Client,
    Original,
    Source,
    Term,
    Text,
)
from tests.imports.emqx_tokens import Tokens, tokens
from tests.imports.pairs import imported, play

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

MORE: Final = ("", "", "", "", FOREIGN, BY_USERS, NOT_ASKED, APART)

PARTS: Final = ("", "", "", "", "", "", AUTHENTICATOR_OFF, SOURCE_OFF)
"""What changes a part of a list that is above it, or in an earlier file."""

OTHERS: Final = tuple(f"mechanism = password_based, backend = {each}" for each in ("built_in_database", "http"))

CLIENTS: Final = (
    *(Client(*each) for each in product((None, *NAMES[1:3]), ("ann", "devx1"), ADDRESSES)),
    *(Client("+", "ann", ADDRESSES[0]), Client("ann", "#", ADDRESSES[1]), Client("bob", "+", ADDRESSES[0])),
)


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


def _kind(authenticator: Authenticator) -> object:
    """What EMQX takes one of."""
    return Tokens if isinstance(authenticator.own, Tokens) else authenticator.own


def originals() -> st.SearchStrategy[Original]:
    """Any configuration."""
    kinds = st.sampled_from(("file", "file", "file", "http", "built_in_database"))
    sources = st.builds(
        lambda kind, own, on: Source(kind, own if kind == "file" else (), on),
        kinds,
        rules(),
        st.sampled_from((True, True, False)),
    )
    others = st.sampled_from((SCRAM, *OTHERS))
    authenticator = st.builds(Authenticator, others | others | tokens(), st.sampled_from((True, True, True, False)))
    chain = st.lists(authenticator, min_size=1, max_size=3, unique_by=_kind).map(tuple)
    return st.builds(
        Original,
        st.just(()) | chain | chain,
        st.sampled_from((None, "allow", "deny")),
        st.none() | st.lists(sources, max_size=3).map(tuple),
        st.none() | rules() | rules() | rules(),
        st.sampled_from(MORE),
        st.sampled_from(PARTS),
        st.booleans(),
        st.booleans(),
    )


# -- the comparison


def compare(original: Original, folder: Path) -> None:
    """Import a configuration. AssertionError says where the result permits more."""
    original.write(folder)
    output = folder / "sluice.yaml"
    status, said = imported("emqx", folder, output)
    assert output.exists() == (status in (0, 1)), said
    if status == 2:
        return
    loaded = config.load(output, environ={}).config
    told = f"{original}\n{output.read_text()}{said}"
    assert not original.asked or loaded.allow_anonymous is False, told
    emqx_tokens.compare(original.tokens, loaded, told)
    served = [each for each in loaded.listeners if each.name == "tcp-default"]
    assert (original.more == APART) == (not served), told
    assert not served or original.lets_in or served[0].allow_anonymous is not True, told
    authorizer = Authorizer(loaded)
    for who in CLIENTS:
        if not original.lets_in and who.user is None:
            continue
        # A name that nobody has checked is none.
        user = who.user if original.asked else None
        permissions = authorizer.permissions(Who(user, frozenset(), who.client_id, who.host, "tcp-default"))
        for action, topic in product(ACTIONS, TOPICS):
            if may(permissions, action, topic):
                assert original.permits(who, action, topic), f"{who} may {action} on {topic}\n{told}"


def may(permissions: Permissions, action: tuple[str, int, bool], topic: str) -> bool:
    """What the result permits."""
    kind, qos, retain = action
    if kind == "publish":
        return not topic.startswith("$SYS") and permissions.may_publish(topic.encode(), qos, retain)
    return permissions.may_receive(topic.encode(), qos)


def check(pairs: int, seed: int) -> int:
    """Play so many pairs; returns how many have been. AssertionError has the pair."""
    return play(pairs, seed, originals(), compare)
