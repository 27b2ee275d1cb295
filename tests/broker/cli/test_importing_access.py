"""`sluice import mosquitto` with per_listener_settings: nobody may do more than Mosquitto lets them."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

import config
from broker.cli.main import app
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from tests.support.broker.logins import fast_hash
from tests.support.brokers import HOST
from tests.support.process import Address, BrokerProcess, clean_environment, free_port
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

LIMITED: Final = "per_listener_settings true\nlistener 1884\npassword_file users\nacl_file acl\n"
EVERYTHING: Final = ["#", "$SYS/#"]


def imported(folder: Path, text: str) -> tuple[str, dict[str, Any]]:
    """What is printed about mistakes, and the result."""
    (folder / "users").write_text(f"ann:{fast_hash('secret')}\n")
    (folder / "others").write_text(f"ben:{fast_hash('secret')}\n")
    (folder / "acl").write_text("user ann\ntopic read pub/#\n")
    (folder / "mosquitto.conf").write_text(text)
    output = folder / "sluice.yaml"
    result = CliRunner().invoke(app, ["import", "mosquitto", str(folder), "-o", str(output)])
    assert result.exit_code in (0, 1), result.output
    assert config.check(output) == []
    return result.stderr, yaml.safe_load(output.read_text())


def rule(permit: str, *names: str) -> dict[str, object]:
    """A rule about everything on listeners."""
    return {"permit": permit, "topics": EVERYTHING, "listeners": list(names)}


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (LIMITED + "listener 1885", [rule("deny", "listener-1885")]),
        (LIMITED + "listener 1885\nacl_file acl", [rule("deny", "listener-1885")]),
        (LIMITED + "listener 1885\nallow_anonymous true", [rule("allow", "listener-1885")]),
        (LIMITED + "listener 1885\npassword_file users", [rule("allow", "listener-1885")]),
        (LIMITED + "listener 1885\npassword_file others", [rule("deny", "listener-1885")]),
        (
            LIMITED + "listener 1885\nlistener 1886\nallow_anonymous true",
            [rule("deny", "listener-1885"), rule("allow", "listener-1886")],
        ),
        (
            LIMITED.replace("acl_file acl\n", "") + "listener 1885",
            [rule("deny", "listener-1885"), rule("allow", "listener-1884")],
        ),
        (LIMITED.replace("password_file users", "allow_anonymous true") + "listener 1885", None),
    ],
)
def test_rules(tmp_path: Path, text: str, rules: list[object] | None) -> None:
    """Everything is allowed only where Mosquitto lets the same clients in without a file of rules."""
    told, result = imported(tmp_path, text)
    assert result["authorization"].get("rules") == rules
    denied = rules is not None and rules[0] == rule("deny", "listener-1885")
    assert ("everything on listener-1885" in told) == denied


def test_where_nobody_is_let_in(tmp_path: Path) -> None:
    """A user of one listener can publish nothing on another where Mosquitto lets nobody in."""
    places = [Address(HOST, free_port()) for _ in range(2)]
    first, second = (f"listener {each.port} {HOST}" for each in places)
    imported(tmp_path, f"{LIMITED.replace('listener 1884', first)}{second}\n")
    environment = clean_environment(XDG_RUNTIME_DIR=str(tmp_path))
    arguments = ["run", "--config", str(tmp_path / "sluice.yaml")]
    with BrokerProcess(arguments, tmp_path, environment, forked_on="asyncio") as broker:
        for place in places:
            broker.wait_until_accepting(place)
        with WireClient(places[1], 5) as client:
            client.send(Connect("c", True, username="ann", password=b"secret", version=5))
            assert client.expect(Connack).reason_code == 0
            client.send(Publish(b"secret/x", b"x", 1, packet_id=1))
            assert client.expect(Puback).reason_code == reason_codes.NOT_AUTHORIZED
