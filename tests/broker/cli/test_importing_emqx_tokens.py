"""`sluice import emqx` and authenticators: tokens (JWT) that EMQX would refuse are not accepted, and that is said."""

from pathlib import Path
from typing import Any

import pytest

from tests.broker.cli.test_importing_emqx_access import USERS, run
from tests.support.broker.tokens import make_key, public

pytestmark = pytest.mark.once
pytest.importorskip("pyhocon", reason="needs the extra `emqx`")

JWT = "mechanism = jwt, from = password"
JWKS = f'{JWT}, use_jwks = true, endpoint = "https://login.example.com/keys"'


def tokens(folder: Path, settings: str) -> tuple[int, str, dict[str, Any]]:
    """The status, standard error, and how tokens are verified; nothing if they are not."""
    status, told, made = run(folder, f"authentication = [{{ {settings} }}]")
    assert made["allow_anonymous"] is False
    assert ("password_file" in made["authentication"]) == ("jwt" not in made["authentication"])
    return status, told, made["authentication"].get("jwt", {})


@pytest.mark.parametrize("before", ["password_based, backend = built_in_database", "password_based, backend = http"])
def test_tokens_behind_another_authenticator(tmp_path: Path, before: str) -> None:
    """No token is accepted where an authenticator before it may refuse the client, as with a wrong password."""
    first, second = f"{{ mechanism = {before} }}", f"{{ {JWKS} }}"
    for chain in (f" = [{first}, {second}]", f" {{ 2 {second}, 1 {first} }}"):
        status, told, made = run(tmp_path, f"authentication{chain}")
        assert (status, list(made["authentication"]), "comes behind" in told) == (1, ["password_file"], True)
        (tmp_path / "sluice.yaml").unlink()


@pytest.mark.parametrize(
    "others",
    [
        "{{ mechanism = scram, backend = built_in_database }}, {{ {jwt} }}",
        "{{ mechanism = password_based, backend = http, enable = false }}, {{ {jwt} }}",
        "{{ {jwt} }}, {{ mechanism = password_based, backend = built_in_database }}",
    ],
)
def test_tokens_beside_other_authenticators(tmp_path: Path, others: str) -> None:
    """Tokens are accepted before others, and behind those that are off or are never asked about a password."""
    made = run(tmp_path, f"authentication = [{others.format(jwt=JWKS)}]")[2]
    assert "jwt" in made["authentication"]


@pytest.mark.parametrize(
    "claims",
    [
        '{ tenant = a, client_id = "${clientid}", name = "${username}", iss = me, aud = mqtt }',
        """[{ name = tenant, value = a }, { name = client_id, value = "${clientid}" }, { name = iss, value = me },
        { name = name, value = "${username}" }, { name = aud, value = mqtt }]""",
    ],
)
def test_claims_of_tokens(tmp_path: Path, claims: str) -> None:
    """What a claim has to be is taken over, in either form; tokens with rules in them are refused, and that is told."""
    status, told, made = tokens(tmp_path, f"{JWKS}, verify_claims = {claims}")
    assert (status, len(told.splitlines()), "tokens with the claim acl" in told) == (1, 1, True)
    assert (made["issuer"], made["audience"], made["user_claim"]) == ("me", "mqtt", "name")
    names = {"client_id": "{client_id}", "name": "{username}"}
    assert made["claims"] == {"tenant": "a", **names, "iss": "me", "aud": "mqtt", "acl": None}


@pytest.mark.parametrize(
    "more",
    [
        'precondition = "is_jwt(password)"',
        'verify_claims { a = "${other}" }',
        'verify_claims { a = "x{username}" }',
        "verify_claims { acl = x }",
        "verify_claims = [{ name = a }]",
        "verify_claims = [{ name = a, value = b }, { name = a, value = c }]",
        'from = username, verify_claims { name = "${username}" }',
        "surprise = 1",
    ],
)
def test_tokens_that_are_not_taken_over(tmp_path: Path, more: str) -> None:
    """If what decides about tokens cannot be said, none is accepted, and the setting is told."""
    status, told, made = tokens(tmp_path, f"{JWKS}, {more}")
    assert (status, made, "tokens are not accepted" in told) == (1, {}, True)


@pytest.mark.parametrize(("kind", "count"), [("RS256", 6), ("ES256", 1), ("EdDSA", 1)])
def test_public_key(tmp_path: Path, kind: str, count: int) -> None:
    """The kind of key is read from the file with the public key."""
    key = public(make_key(kind), tmp_path / "key.pem")
    _, _, made = tokens(tmp_path, f'{JWT}, use_jwks = false, algorithm = public-key, public_key = "{key}"')
    assert (made["key_file"], len(made["algorithms"]), kind in made["algorithms"]) == (str(key), count, True)


@pytest.mark.parametrize("content", [None, "none", "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"])
def test_public_key_that_cannot_be_read(tmp_path: Path, content: str | None) -> None:
    """Without a public key no token is accepted, and the file is told; so with a secret."""
    key = tmp_path / "key.pem"
    if content is not None:
        key.write_text(content)
    status, told, made = tokens(tmp_path, f'{JWT}, use_jwks = false, algorithm = public-key, public_key = "{key}"')
    assert (status, made, "public_key" in told) == (1, {}, True)
    (tmp_path / "sluice.yaml").unlink()
    secret = f'{JWT}, use_jwks = false, algorithm = hmac-based, secret = x, public_key = "{key}"'
    assert tokens(tmp_path, secret)[2] == {}


@pytest.mark.parametrize(
    "own",
    [
        'backend = http, method = post, url = "http://127.0.0.1/auth", body { username = "${username}" }',
        'backend = postgresql, server = "db", query = "SELECT password_hash FROM users WHERE name = ${username}"',
        "backend = surprise",
    ],
)
def test_other_authenticators(tmp_path: Path, own: str) -> None:
    """Whom an authenticator that is not taken over lets in, nobody does until users are added; that is told."""
    status, told, made = run(tmp_path, f"authentication = [{{ mechanism = password_based, {own} }}]")
    assert (status, "authentication.1.mechanism" in told, made["allow_anonymous"]) == (1, True, False)
    assert made["authentication"] == {"password_file": str(tmp_path / "sluice-users")}


def test_names_at_the_door(tmp_path: Path) -> None:
    """A listener that refuses clients without names is not opened where nobody checks names."""
    text = "listeners.tcp.default.enable_authn = quick_deny_anonymous"
    status, _, made = run(tmp_path, text)
    assert (status, [each["name"] for each in made["listeners"]]) == (1, ["ws-default"])
    (tmp_path / "sluice.yaml").unlink()
    assert run(tmp_path, text + "\n" + USERS)[2]["listeners"][0]["allow_anonymous"] is False
