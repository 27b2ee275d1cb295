"""Rules between keys: TLS, names and bind addresses of listeners, authentication."""

import pytest

from config import admin_rules, drop_events, rules
from config.bind_address import parse
from config.layers import dotted

pytestmark = pytest.mark.once


def facts(
    index: int = 0,
    name: str | None = None,
    bind: str | None = "127.0.0.1:1883",
    certificate: bool | None = False,
    cafile: bool | None = False,
    own: bool | None = None,
) -> rules.ListenerFacts:
    """The facts of a listener, with a unique name unless one is given."""
    address = None if bind is None else parse(bind)
    return rules.ListenerFacts(index, name or f"l{index}", address, certificate, cafile, own)


def broken(*listeners: rules.ListenerFacts, anonymous: bool | None = None, users: bool | None = False) -> list[str]:
    """The paths of all broken rules."""
    return [dotted(problem.path) for problem in rules.broken(listeners, anonymous, users)]


@pytest.mark.parametrize(
    ("bind", "certificate", "anonymous", "expected"),
    [
        ("127.0.0.1:1883", False, None, []),
        ("127.0.0.1:1883", False, True, []),
        ("127.0.0.1:1883", False, False, ["allow_anonymous"]),
        ("127.0.0.1:1883", True, False, []),
        ("[::1]:1883", False, None, []),
        ("localhost:1883", False, None, []),
        ("0.0.0.0:1883", False, None, ["listeners[0].bind"]),
        ("[::]:1883", False, None, ["listeners[0].bind"]),
        ("192.168.0.9:1883", False, None, ["listeners[0].bind"]),
        ("broker.example:1883", False, None, ["listeners[0].bind"]),
        ("0.0.0.0:1883", False, True, []),
        ("0.0.0.0:1883", False, False, ["allow_anonymous"]),
        ("0.0.0.0:1883", True, None, []),
        ("0.0.0.0:1883", True, False, []),
        ("0.0.0.0:1883", True, True, []),
        ("0.0.0.0:1883", None, None, []),
        (None, False, None, []),
    ],
)
def test_authentication(
    bind: str | None, certificate: bool | None, anonymous: bool | None, expected: list[str]
) -> None:
    """Listening beyond loopback needs client certificates or allow_anonymous: true; false needs them everywhere."""
    assert broken(facts(bind=bind, certificate=certificate, cafile=True), anonymous=anonymous) == expected


def test_authentication_of_one_listener() -> None:
    """What a listener says itself prevails over the broker's allow_anonymous."""
    for anonymous in (None, True, False):
        assert broken(facts(bind="0.0.0.0:1883", own=True), anonymous=anonymous) == []
        assert broken(facts(own=False), anonymous=anonymous) == ["listeners[0].allow_anonymous"]
        assert broken(facts(own=False), anonymous=anonymous, users=True) == []


def test_the_refusal_says_how_to_mend_it() -> None:
    """The message names all solutions that fit the value of allow_anonymous."""
    (problem,) = rules.broken([facts(bind="0.0.0.0:1883")], None, False)
    users = "authentication.password_file"
    for way in ("tls.require_client_certificate: true", users, "127.0.0.1", "allow_anonymous: true"):
        assert way in problem.message
    (problem,) = rules.broken([facts()], False, False)
    for way in ("tls.require_client_certificate: true", users, "allow_anonymous: true"):
        assert way in problem.message


@pytest.mark.parametrize("bind", ["127.0.0.1:1883", "0.0.0.0:1883"])
@pytest.mark.parametrize("users", [True, None])
def test_users_are_authentication(bind: str, users: bool | None) -> None:
    """With users, every listener has authentication; users that could not be parsed break no rule."""
    for anonymous in (None, False, True):
        assert broken(facts(bind=bind), anonymous=anonymous, users=users) == []


def test_client_certificates_need_authorities() -> None:
    """Requiring client certificates needs a cafile."""
    assert broken(facts(certificate=True, cafile=False)) == ["listeners[0].tls.require_client_certificate"]
    assert broken(facts(certificate=True, cafile=True)) == []
    assert broken(facts(certificate=False, cafile=True)) == []


def test_names_and_addresses_are_unique() -> None:
    """Names and bind addresses are unique; the later listener is the mistake."""
    first = facts(0, "a", "127.0.0.1:1883")
    assert broken(first, facts(1, "a", "127.0.0.1:1884")) == ["listeners[1].name"]
    assert broken(first, facts(1, "b", "127.0.0.1:1883")) == ["listeners[1].bind"]
    assert broken(first, facts(1, "b", None), facts(2, "c", "127.0.0.1:1885")) == []


def test_all_broken_rules_are_found() -> None:
    """One broken rule does not hide another."""
    listeners = [
        facts(0, "a", "0.0.0.0:1883"),
        facts(1, "a", "127.0.0.1:1883", certificate=True, cafile=False),
    ]
    assert broken(*listeners) == [
        "listeners[0].bind",
        "listeners[1].tls.require_client_certificate",
        "listeners[1].name",
        "listeners[1].bind",
    ]


@pytest.mark.parametrize(
    ("listen", "tls", "way_in", "expected"),
    [
        (None, False, False, 0),
        ("127.0.0.1:1", False, True, 0),
        ("[::1]:1", False, True, 0),
        ("127.0.0.1:1", False, False, 1),
        ("127.0.0.1:1", False, None, 0),
        ("0.0.0.0:1", False, True, 1),
        ("0.0.0.0:1", True, True, 0),
        ("0.0.0.0:1", None, None, 0),
        ("0.0.0.0:1", False, False, 2),
    ],
)
def test_admin(listen: str | None, tls: bool | None, way_in: bool | None, expected: int) -> None:
    """The admin API over TCP needs tokens or a socket, and beyond loopback TLS."""
    problems = admin_rules.broken(None if listen is None else parse(listen), tls, way_in)
    assert [dotted(problem.path) for problem in problems] == ["admin.listen"] * expected


def test_admin_and_a_listener() -> None:
    """The admin API has a port of its own."""
    for bind, expected in (("127.0.0.1:9", []), ("127.0.0.1:8", ["admin.listen"]), ("localhost:8", ["admin.listen"])):
        problems = admin_rules.broken(parse(bind), False, True, [facts(0, bind="127.0.0.1:8")])
        assert [dotted(problem.path) for problem in problems] == expected


@pytest.mark.parametrize(
    ("topic", "levels", "expected"),
    [("a/{topic}", 2, 0), ("a/b/{reason}", 2, 1), ("a", 1, 0), (None, 1, 0), ("a/b", None, 0)],
)
def test_levels_of_drop_events(topic: str | None, levels: int | None, expected: int) -> None:
    """FC-35: no client could subscribe to a topic with more levels than `mqtt.max_topic_levels`."""
    problems = drop_events.broken(topic, levels)
    assert [dotted(problem.path) for problem in problems] == ["drop_events.topic"] * expected
    assert all(f"at most {levels}" in problem.message for problem in problems)
