"""What decides about logins outside the broker: every bound and validator of its sections rejects."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from config.http import Http
from config.plugins import Plugin
from config.postgres import Postgres
from config.urls import masked, masked_in, refusal

pytestmark = pytest.mark.once

BASE: dict[type[BaseModel], dict[str, Any]] = {
    Http: {"url": "https://login.example.com/"},
    Postgres: {"host": "/run/postgresql", "database": "d", "user": "u", "query": "select $1"},
    Plugin: {"name": "p"},
}

REFUSED: list[tuple[type[BaseModel], str, list[object]]] = [
    (Postgres, "host", [None, "", 5, "a b:c"]),
    (Postgres, "port", [0, 65_536, None, "x"]),
    (Postgres, "database", ["", None, 5]),
    (Postgres, "user", ["", None, 5]),
    (Postgres, "password_file", ["", 5, []]),
    (Postgres, "cafile", ["", 5, []]),
    (Postgres, "query", ["", "select 1", "select $10", None, 5]),
    (Postgres, "max_connections", [0, 101, "infinity", None, True]),
    (Postgres, "timeout", [0, "61s", "infinity", "5", None, True]),
    (Http, "url", ["", "http://login.example.com/", "https://ann:secret@example.com/", "ftp://localhost/", None, 5]),
    (Http, "cafile", ["", 5, []]),
    (Http, "header", ["", "a b", "a:b", None, 5]),
    (Http, "header_file", ["", 5, []]),
    (Http, "timeout", [0, "61s", "infinity", "5", None, True]),
    (Http, "max_requests", [0, 1_001, "infinity", None, True]),
    (Http, "cache_time", [-1, "2d", "infinity", "5", None, True]),
    (Http, "cache_size", [0, 1_000_001, "infinity", None, True]),
    (Plugin, "name", ["", None, 5]),
    (Plugin, "settings", [None, "a", []]),
]


@pytest.mark.parametrize(
    ("model", "key", "value"), [(model, key, value) for model, key, values in REFUSED for value in values]
)
def test_every_validator_rejects(model: type[BaseModel], key: str, value: object) -> None:
    """A value out of bounds or of the wrong type is refused; the message names the key."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(BASE[model] | {key: value})
    assert {error["loc"][0] for error in caught.value.errors()} == {key}


def test_no_key_is_left_out_of_the_rejections() -> None:
    """REFUSED has values for every key of every model."""
    assert {(model, key) for model, key, _ in REFUSED} == {(model, key) for model in BASE for key in model.model_fields}


@pytest.mark.parametrize(
    ("host", "local"),
    [("/run/postgresql", True), ("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False)],
)
def test_database_on_this_machine(host: str, local: bool) -> None:
    """A database is asked without TLS on this machine only."""
    assert Postgres.model_validate(BASE[Postgres] | {"host": host}).is_local == local


def test_address_with_a_password_is_not_quoted() -> None:
    """Who writes a password into the address of a service reads why not, but no log has the password."""
    with pytest.raises(ValidationError) as caught:
        Http.model_validate({"url": "https://ann:battery@login.example.com/"})
    (error,) = caught.value.errors()
    assert "header_file is for secrets" in error["msg"]
    assert "battery" not in error["msg"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://example.com/", ""),
        ("http://127.0.0.1:8080/keys", ""),
        ("http://example.com/", "write an https address"),
        ("https://ann:battery@example.com/", "without a user name and a password"),
        ("http://ann@localhost/", "without a user name and a password"),
        ("https://[example.com/", "write an https address"),
        ("https:///keys", "write an https address"),
    ],
)
def test_reasons_against_an_address(url: str, reason: str) -> None:
    """Each refusal says what would be right for this address."""
    assert reason in refusal(url)
    assert bool(refusal(url)) == bool(reason)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/a", "https://example.com/a"),
        ("https://example.com/a?", "https://example.com/a?"),
        ("https://example.com/a?key=battery&n=1", "https://example.com/a?key=***&n=***"),
        ("https://example.com/a?battery", "https://example.com/a?***"),
        ("https://example.com?key=battery?staple=x#battery", "https://example.com?key=***"),
        ("https://ann:battery@example.com/a@b", "https://***@example.com/a@b"),
    ],
)
def test_addresses_without_secrets(url: str, shown: str) -> None:
    """Who reads an address sees neither user, password nor the values of its query, also in an error that quotes it."""
    assert masked(url) == shown
    assert masked_in(f"400, url={url} x", url) == f"400, url={shown} x"
    assert masked_in(f"400, url={url} x", "") == f"400, url={shown} x"
