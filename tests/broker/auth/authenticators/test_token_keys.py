"""Keys of tokens: in files that change, at an address that fails, and sets of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from broker.auth.authenticators.token_keys import TokenKeys
from config.tokens import Jwt
from protocol import reason_codes
from protocol.connack import Connack
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.broker.logins import NO_LIMITS, log_in
from tests.support.broker.tokens import SECRET, key_server, key_set, make_key, token
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once

HEAD = b"HTTP/1.1 200 OK\r\n"
UNREADY, DENIED = reason_codes.SERVER_UNAVAILABLE, reason_codes.BAD_USER_NAME_OR_PASSWORD


def with_tokens(start: Start, prepare: str = "", /, **own: Any) -> BrokerProcess:
    """A broker that takes tokens only."""
    return start(sections={"allow_anonymous": None, "authentication": {"jwt": own, **NO_LIMITS}}, prepare=prepare)


def code(broker: BrokerProcess, text: str) -> int:
    """How a login with a token is answered."""
    with log_in(broker.address(), "ann", text) as client:
        return client.expect(Connack).reason_code


def test_set_of_keys(start: Start, tmp_path: Path) -> None:
    """Each token is verified by the key that it names; the file is read again when it has changed."""
    one, two = make_key("ES256"), make_key("EdDSA")
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(key_set(one=(one, "ES256"))))
    broker = with_tokens(start, algorithms=["ES256", "EdDSA"], jwks_file=str(file))
    tokens = [token(one, "ES256", "one"), token(two, "EdDSA", "two"), token(two, "EdDSA", "one"), token(one, "ES256")]
    assert [code(broker, each) for each in tokens] == [0, DENIED, DENIED, 0]
    file.write_text(json.dumps(key_set(one=(one, "ES256"), two=(two, "EdDSA"))))
    wait_for_event(broker, "file_read")
    assert [code(broker, each) for each in tokens] == [0, 0, DENIED, DENIED]  # without a key id it is not clear which


def test_address(start: Start) -> None:
    """Keys are fetched; until they are there all tokens are refused; an unknown key id fetches them at once."""
    one, two = make_key("RS256"), make_key("RS256")
    with key_server() as server:
        server.answer = (200, json.dumps(key_set(one=(one, "RS256"))).encode())
        broker = with_tokens(start, algorithms=["RS256"], jwks_url=server.url, refresh="10s")
        wait_until(lambda: code(broker, token(one, "RS256", "one")) == 0, "the keys are there")
        server.answer = (200, json.dumps(key_set(one=(one, "RS256"), two=(two, "RS256"))).encode())
        before = server.asked
        assert code(broker, token(two, "RS256", "two")) in (0, DENIED)  # the last fetch was a moment ago
        wait_until(lambda: code(broker, token(two, "RS256", "two")) == 0, "the new key is there", 30)
        assert server.asked <= before + 3  # whoever invents key ids does not flood it


@pytest.mark.parametrize(
    "answer",
    [(503, b""), (200, b"[]"), (200, b"{"), (302, b""), (200, b'{"keys": []}'), (200, b"[" * 100_000)],
    ids=["503", "list", "half", "elsewhere", "none", "nested"],
)
def test_address_that_fails(start: Start, answer: tuple[int, bytes]) -> None:
    """Without keys all tokens are refused, the log says why, and redirections are not followed."""
    with key_server() as server:
        server.answer = answer
        server.location = "http://127.0.0.1:1/" if answer[0] == 302 else ""
        broker = with_tokens(start, algorithms=["RS256"], jwks_url=server.url)
        (event,) = wait_for_event(broker, "keys_not_fetched")
        assert event["key"] == "authentication.jwt.jwks_url"
        assert code(broker, token(make_key("RS256"), "RS256", "one")) == UNREADY
        assert server.asked == 1


@pytest.mark.parametrize(
    "raw",
    [b"hello\r\n\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", HEAD + b"a: b\r\n" * 500],
    ids=["no HTTP", "chunks", "headers"],
)
def test_address_that_is_no_http(start: Start, raw: bytes) -> None:
    """Whatever an address answers, it is asked again, and its keys count when they are there."""
    key = make_key("RS256")
    with key_server() as server:
        server.raw = raw
        server.answer = (200, json.dumps(key_set(one=(key, "RS256"))).encode())
        prepare = "import broker.auth.authenticators.token_keys as keys; keys.RETRY = 0.2"
        broker = with_tokens(start, prepare, algorithms=["RS256"], jwks_url=server.url)
        wait_for_event(broker, "keys_not_fetched")
        assert code(broker, token(key, "RS256", "one")) == UNREADY
        server.raw = b""
        wait_until(lambda: code(broker, token(key, "RS256", "one")) == 0, "the keys are there")


@pytest.mark.parametrize(
    ("algorithm", "content", "reason"),
    [
        ("HS256", b"12345", "a secret of 5 bytes; 32 or more are needed"),
        ("RS256", b"nothing", "no public key in PEM form for RS256"),
        ("HS256", b"-----BEGIN PUBLIC KEY-----\n" + b"x" * 64, "no shared secret"),
        ("ES256", b"-----BEGIN PRIVATE KEY-----", "a private key"),
    ],
    ids=["few-bytes", "no-key", "public", "private"],
)
def test_wrong_file(tmp_path: Path, algorithm: str, content: bytes, reason: str) -> None:
    """A file that is no such key keeps the broker from starting, with a reason that does not quote it."""
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(OSError, match=reason) as caught:
        TokenKeys(Jwt.model_validate({"algorithms": [algorithm], "key_file": str(file)}))
    assert content.decode() not in str(caught.value)


def test_certificate(certificates: Certificates) -> None:
    """A certificate whose key is of another kind than the algorithm keeps the broker from starting."""
    own = {"key_file": str(certificates.server.certfile)}  # of P-256
    TokenKeys(Jwt.model_validate({**own, "algorithms": ["ES256"]}))
    for other in ("RS256", "ES384", "EdDSA"):
        with pytest.raises(OSError, match=f"no public key in PEM form for {other}"):
            TokenKeys(Jwt.model_validate({**own, "algorithms": [other]}))


def test_algorithms_of_one_key() -> None:
    """RS and PS go with one key, and a set has keys of any kinds."""
    Jwt.model_validate({"algorithms": ["RS256", "RS512", "PS256"], "key_file": "a"})
    Jwt.model_validate({"algorithms": ["RS256", "ES256", "EdDSA"], "jwks_file": "a"})


def test_secrets_in_sets_count_for_secrets_only(tmp_path: Path) -> None:
    """A set without a key of the algorithm's kind is refused: a shared secret does not stand for a public key."""
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(key_set(one=(SECRET, "HS256"))))
    with pytest.raises(OSError, match="no key in the set is for RS256"):
        TokenKeys(Jwt.model_validate({"algorithms": ["RS256"], "jwks_file": str(file)}))


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"algorithms": ["HS256"]}, "write one of key_file"),
        ({"algorithms": ["HS256"], "key_file": "a", "jwks_file": "b"}, "write one of key_file"),
        ({"algorithms": ["HS256", "RS256"], "key_file": "a"}, "not both"),
        (
            {"algorithms": ["HS256"], "key_file": "a", "sent_as": "username", "claims": {"t": "{username}"}},
            "it is the token, which no claim has",
        ),
        ({"algorithms": ["RS256"], "jwks_url": "http://example.com/"}, "https"),
        ({"algorithms": ["RS256"], "jwks_url": "https://ann:secret@example.com/"}, "without a user name"),
        ({"algorithms": ["none"], "key_file": "a"}, "HS256"),
        ({"algorithms": [], "key_file": "a"}, "at least 1"),
        ({"algorithms": ["RS256", "PS512", "ES256"], "key_file": "a"}, "cannot serve RS256 and ES256: write one"),
        ({"algorithms": ["ES256", "ES384", "EdDSA"], "key_file": "a"}, "cannot serve ES256 and ES384 and EdDSA"),
    ],
)
def test_wrong_configuration(own: dict[str, Any], reason: str) -> None:
    """Mistakes that would make tokens unsafe are refused."""
    with pytest.raises(ValidationError, match=reason):
        Jwt.model_validate(own)

