"""The first line of the log: what runs, and from what."""

import platform
from pathlib import Path
from typing import Any

import pytest

from broker import __version__
from broker.server.starting import code, introduction
from config.models import Config
from tests.broker.conftest import Start
from tests.conftest import how_it_runs
from tests.support.broker.events import events, wait_for_event

ANN: dict[str, Any] = {
    "username": "ann",
    "salt": "c2FsdHNhbHRzYWx0",
    "iterations": 4096,
    **dict.fromkeys(("stored_key", "server_key"), "A" * 43 + "="),
}


def told(**sections: Any) -> dict[str, Any]:
    """What the line says of a configuration."""
    return introduction(Config.model_validate({"allow_anonymous": None, **sections}), None)


def test_it_is_the_first_line(start: Start, tmp_path: Path) -> None:
    """Before anything else the log says what runs: version, compiled or not, configuration file, journal, metrics."""
    journal, metrics = tmp_path / "journal", tmp_path / "metrics"
    broker = start(sections={"persistence": {"directory": str(journal)}, "metrics": {"directory": str(metrics)}})
    wait_for_event(broker, "listening")
    line = events(broker)[0]
    expected = {
        "event": "starting",
        "level": "info",
        "version": __version__,
        "code": how_it_runs()[0],
        "python": platform.python_version(),
        "config": str(tmp_path / "sluice.yaml"),
        "journal": str(journal),
        "metrics": str(metrics),
        "metrics_kept": "30d",
        "users": "anonymous",
        "rules": None,
    }
    assert {key: line.get(key, "") for key in expected} == expected


def test_code() -> None:
    """What it says of itself is what the tests are run on."""
    assert code() == how_it_runs()[0]


@pytest.mark.parametrize(
    ("sections", "users"),
    [
        ({}, "anonymous"),
        ({"authentication": {"password_file": "/etc/users"}}, "password_file /etc/users"),
        ({"authentication": {"scram": [ANN]}}, "1 in authentication.scram"),
        (
            {"authentication": {"password_file": "/etc/users"}, "allow_anonymous": True},
            "password_file /etc/users, anonymous",
        ),
        (
            {
                "authentication": {"password_file": "/etc/users"},
                "listeners": [{"bind": "127.0.0.1:1883", "name": "a", "allow_anonymous": True}],
            },
            "password_file /etc/users, anonymous",
        ),
    ],
)
def test_users(sections: dict[str, Any], users: str) -> None:
    """It says who decides about logins, and whether anybody may connect."""
    assert told(**sections)["users"] == users


def test_rules() -> None:
    """It says where rules are, and that what they do not mention is denied, if that is written."""
    rule = {"permit": "allow", "topics": ["#"]}
    assert told(authorization={"rules": [rule], "acl_file": "/etc/acl"})["rules"] == (
        "1 in authorization.rules, acl_file /etc/acl"
    )
    assert told()["rules"] is None
    assert told(authorization={"default": "deny"})["rules"] == "default: deny"
