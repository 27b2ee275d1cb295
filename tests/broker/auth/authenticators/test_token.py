"""Clients that log in with tokens (JWT): algorithms, claims, what is refused, and the end of a token."""

from pathlib import Path
from typing import Any

import jwt
import pytest
from structlog.testing import capture_logs

from broker.auth.authenticators.authenticator import Login, No
from broker.auth.authenticators.hashing import HashingPool
from broker.auth.authenticators.token import TokenAuthenticator
from broker.auth.authenticators.token_keys import TokenKeys
from broker.auth.identity import Identity
from config.tokens import Jwt
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.broker.logins import log_in, sections, write_users
from tests.support.broker.tokens import SECRET, make_key, public, token

ALGORITHMS = ("HS256", "HS512", "RS256", "PS256", "ES256", "EdDSA")
DENIED = reason_codes.BAD_USER_NAME_OR_PASSWORD


async def answer(own: dict[str, Any], password: str, username: str = "", client_id: str = "") -> Identity | No:
    """What is said about a login."""
    settings = Jwt.model_validate(own)
    pool = HashingPool()
    try:
        found = await TokenAuthenticator(settings, TokenKeys(settings), pool).authenticate(
            Login(username, password.encode(), client_id)
        )
    finally:
        pool.close()
    assert isinstance(found, Identity | No)
    return found


def secret(tmp_path: Path, **more: Any) -> dict[str, Any]:
    """The section for tokens with SECRET."""
    return {"algorithms": ["HS256"], "key_file": str(public(SECRET, tmp_path / "key")), **more}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_algorithms(tmp_path: Path, algorithm: str) -> None:
    """A token of each kind is verified by its key, and by no other."""
    key = make_key(algorithm)
    own = {"algorithms": [algorithm], "key_file": str(public(key, tmp_path / "key"))}
    found = await answer(own, token(key, algorithm))
    assert isinstance(found, Identity)
    assert (found.user, found.roles, found.source) == ("ann", frozenset(), "jwt")
    other = b"o" * 64 if algorithm.startswith("HS") else make_key(algorithm)
    assert await answer(own, token(other, algorithm)) is No.DENIED


async def test_public_key_is_no_secret(tmp_path: Path) -> None:
    """A token that is signed with the public key as if it were a secret is refused, and so is one without signature."""
    import base64
    import hashlib
    import hmac
    import json

    path = public(make_key("RS256"), tmp_path / "key")

    def part(value: bytes) -> bytes:
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    body = token(SECRET, "HS256").split(".")[1].encode()
    for name in ("HS256", "none"):
        signed = part(json.dumps({"alg": name}).encode()) + b"." + body
        mac = hmac.digest(path.read_bytes(), signed, hashlib.sha256) if name == "HS256" else b""
        forged = (signed + b"." + part(mac)).decode()
        assert await answer({"algorithms": ["RS256"], "key_file": str(path)}, forged) is No.DENIED


@pytest.mark.parametrize(
    ("claims", "more", "expected"),
    [
        ({}, {}, True),
        ({"exp": None}, {}, False),
        ({"exp": 1}, {}, False),
        ({"exp": "tomorrow"}, {}, False),
        ({"nbf": 99_999_999_999}, {}, False),
        ({"sub": None}, {}, False),
        ({"sub": "a\nb"}, {}, False),
        ({"sub": ""}, {}, False),
        ({"iss": "other"}, {"issuer": "me"}, False),
        ({"iss": "me"}, {"issuer": "me"}, True),
        ({"aud": "mqtt"}, {}, False),
        ({"aud": ["a", "mqtt"]}, {"audience": "mqtt"}, True),
        ({}, {"audience": "mqtt"}, False),
        ({"name": "ann", "sub": None}, {"user_claim": "name"}, True),
    ],
)
async def test_claims(tmp_path: Path, claims: dict[str, Any], more: dict[str, Any], expected: bool) -> None:
    """A token has to be for us, from whom we trust, valid now and not for ever, and has to name a user."""
    assert isinstance(await answer(secret(tmp_path, **more), token(SECRET, "HS256", **claims)), Identity) == expected


@pytest.mark.parametrize(
    ("expected", "claims", "let_in"),
    [
        ({"tenant": "a"}, {"tenant": "a"}, True),
        ({"tenant": "a"}, {"tenant": "b"}, False),
        ({"tenant": "a"}, {"tenant": ["a"]}, False),
        ({"tenant": "a"}, {}, False),
        ({"n": "5"}, {"n": 5}, False),
        ({"device": "{client_id}"}, {"device": "c1"}, True),
        ({"device": "{client_id}"}, {"device": "c2"}, False),
        ({"device": "x-{username}-{client_id}"}, {"device": "x-ann-c1"}, True),
        ({"aud": "mqtt"}, {"aud": ["mqtt"]}, False),
        ({"acl": None}, {}, True),
        ({"acl": None}, {"acl": {}}, False),
        ({"acl": None}, {"acl": False}, False),
    ],
)
async def test_required_claims(
    tmp_path: Path, expected: dict[str, str | None], claims: dict[str, Any], let_in: bool
) -> None:
    """A claim has to be the text that it must be, with the names of CONNECT in it, or must not be there."""
    own = secret(tmp_path, claims=expected, audience="mqtt" if "aud" in expected else None)
    assert isinstance(await answer(own, token(SECRET, "HS256", **claims), "ann", "c1"), Identity) == let_in


@pytest.mark.parametrize("place", ["username", "client_id"])
async def test_required_claims_without_a_name(tmp_path: Path, place: str) -> None:
    """A name that CONNECT does not have equals no claim, also not an empty one."""
    own = secret(tmp_path, claims={"own": f"{{{place}}}"})
    assert await answer(own, token(SECRET, "HS256", own="")) is No.DENIED


@pytest.mark.parametrize("claims", [{"a": "{role}"}, {"a": "x}"}, {"": "a"}, {"a": ""}])
def test_required_claims_that_are_none(tmp_path: Path, claims: dict[str, str]) -> None:
    """A claim without a name or value, or with another placeholder, is a mistake."""
    with pytest.raises(ValueError, match="write a name, and a text"):
        Jwt.model_validate(secret(tmp_path, claims=claims))


@pytest.mark.parametrize(
    ("claims", "more", "told"),
    [
        ({"exp": None}, {}, "compares this time with its clock"),
        ({"exp": "5"}, {}, "compares this time with its clock"),
        ({"nbf": "{client_id}"}, {}, "compares this time with its clock"),
        ({"sub": None}, {}, "each token has the user name in it"),
        ({"name": None}, {"user_claim": "name"}, "each token has the user name in it"),
        ({"iss": None}, {"issuer": "me"}, "issuer asks for 'me'"),
        ({"iss": "you"}, {"issuer": "me"}, "issuer asks for 'me'"),
        ({"aud": "mqtt"}, {}, "write audience too"),
        ({"aud": None}, {"audience": "mqtt"}, "audience asks for 'mqtt'"),
    ],
)
def test_claims_that_no_token_has(
    tmp_path: Path, claims: dict[str, str | None], more: dict[str, Any], told: str
) -> None:
    """Claims by which no token at all could be accepted are a mistake, which says why."""
    with pytest.raises(ValueError, match=told):
        Jwt.model_validate(secret(tmp_path, claims=claims, **more))


@pytest.mark.parametrize("claims", [{"sub": None}, {"iss": None}, {"iat": None}, {"iss": "x-{client_id}"}])
def test_claims_that_some_token_has(tmp_path: Path, claims: dict[str, str | None]) -> None:
    """The same claims are fine where a token may do without them, or may have another value."""
    more = {"user_claim": "name", "issuer": "x-c" if "x-{client_id}" in claims.values() else None}
    assert Jwt.model_validate(secret(tmp_path, claims=claims, **more)).claims == claims


async def test_failures_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a library raises about a token, its client is refused like any other that has failed."""
    good = token(SECRET, "HS256")
    for function in ("decode", "get_unverified_header"):
        with monkeypatch.context() as broken, capture_logs() as logged:
            broken.setattr(jwt, function, _broken)
            assert await answer(secret(tmp_path), good) is No.DENIED
        assert [event["event"] for event in logged] == ["token_refused"]
        assert "secret" not in str(logged)
    assert isinstance(await answer(secret(tmp_path), good), Identity)


def _broken(*_: Any, **__: Any) -> None:
    raise TypeError("secret")


@pytest.mark.parametrize(
    ("claims", "claim", "roles"),
    [
        ({"roles": ["ops", "night", 7, "", "a\n"]}, "roles", {"ops", "night"}),
        ({"roles": "ops night"}, "roles", {"ops", "night"}),
        ({"realm": {"access": {"roles": ["ops"]}}}, "realm.access.roles", {"ops"}),
        ({"roles": {"a": 1}}, "roles", set()),
        ({"roles": ["ops"]}, None, set()),
        ({}, "roles.of.mine", set()),
    ],
)
async def test_roles(tmp_path: Path, claims: dict[str, Any], claim: str | None, roles: set[str]) -> None:
    """Roles are names in a claim, whatever else is there."""
    found = await answer(secret(tmp_path, roles_claim=claim), token(SECRET, "HS256", **claims))
    assert isinstance(found, Identity)
    assert found.roles == roles


async def test_where_the_token_is(tmp_path: Path) -> None:
    """As the password with the user's own name or without one, or as the user name; other logins are left to others."""
    good = token(SECRET, "HS256")
    own = secret(tmp_path)
    assert isinstance(await answer(own, good, "ann"), Identity)
    assert await answer(own, good, "ben") is No.DENIED
    assert await answer(own, "a password", "ann") is No.NOT_MINE
    assert await answer(own, "eyJ.", "ann") is No.NOT_MINE
    assert await answer(own, "eyJ" + "x" * 20_000 + "..", "ann") is No.DENIED
    by_name = secret(tmp_path, sent_as="username")
    assert isinstance(await answer(by_name, "whatever", good), Identity)
    assert await answer(by_name, good, "ann") is No.NOT_MINE


def test_in_a_broker(start: Start, tmp_path: Path) -> None:
    """Tokens and passwords side by side; rules know the token's user and roles, and the log has no token."""
    own = sections(write_users(tmp_path / "users"))
    own["authentication"]["jwt"] = secret(tmp_path, roles_claim="roles")
    rules = [{"permit": "allow", "topics": ["of/{username}/{role}"]}]
    broker = start(sections={**own, "authorization": {"rules": rules}, "log": {"level": "debug", "format": "json"}})
    good = token(SECRET, "HS256", roles=["ops"], sub="tom")
    for version, name in ((4, "tom"), (5, "tom"), (5, None)):
        with log_in(broker.address(), name, good, version) as client:
            assert client.expect(Connack).reason_code == 0
            client.send(Publish(b"of/tom/ops", b"", 1, packet_id=1))
            client.expect(Puback)
    with log_in(broker.address(), "ann", "correct horse") as client:
        assert client.expect(Connack).reason_code == 0
    bad = [token(b"x" * 64, "HS256"), token(SECRET, "HS256", seconds=-1), good.rpartition(".")[0] + "." + "A" * 43]
    for each in bad:
        with log_in(broker.address(), "tom", each) as client:
            assert client.expect(Connack).reason_code == DENIED
    reasons = [event["reason"] for event in wait_for_event(broker, "token_refused", 3)]
    assert reasons == ["InvalidSignatureError", "ExpiredSignatureError", "InvalidSignatureError"]
    for each in (good, *bad):
        assert each.split(".")[1] not in broker.stderr


@pytest.mark.parametrize("before", ["", " ", '"', "Bearer "])
def test_token_as_a_name_is_not_written(start: Start, tmp_path: Path, before: str) -> None:
    """A refused token is neither in the log nor in CONNACK where the user name would be, mistyped ones as well."""
    own: dict[str, Any] = {"allow_anonymous": None, "authentication": {"jwt": secret(tmp_path, sent_as="username")}}
    broker = start(sections={**own, "log": {"level": "debug", "format": "json"}})
    bad = before + token(b"x" * 64, "HS256")
    with log_in(broker.address(), bad, "secret") as client:
        answer = client.expect(Connack)
        assert answer.reason_code == DENIED
        assert "eyJ" not in str(answer.properties)
    assert "eyJ" not in broker.stderr
    with log_in(broker.address(), token(SECRET, "HS256"), None) as client:
        assert client.expect(Connack).reason_code == 0


def test_connection_ends_with_the_token(start: Start, tmp_path: Path) -> None:
    """When the token expires the connection is closed; the next token resumes the session."""
    own: dict[str, Any] = {"allow_anonymous": None, "authentication": {"jwt": secret(tmp_path)}}
    broker = start(sections=own)
    with log_in(broker.address(), "ann", token(SECRET, "HS256", seconds=2), client_id="x") as client:
        client.expect(Connack)
        packet = client.expect_close()
        assert isinstance(packet, Disconnect)
        assert packet.reason_code == reason_codes.NOT_AUTHORIZED
    with log_in(broker.address(), "ann", token(SECRET, "HS256"), client_id="x") as client:
        assert client.expect(Connack).reason_code == 0


def test_nobody_without_a_token(start: Start, tmp_path: Path) -> None:
    """Tokens are users: others are not let in."""
    broker = start(sections={"allow_anonymous": None, "authentication": {"jwt": secret(tmp_path)}})
    with log_in(broker.address(), None, None) as client:
        assert client.expect(Connack).reason_code == reason_codes.NOT_AUTHORIZED
