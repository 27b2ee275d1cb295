"""`sluice ctl`: what it prints, what it changes in a broker, and how it refuses."""

import json
import re
import socket
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from broker.cli.main import app
from config.models import Config
from protocol import properties as props
from tests.broker.conftest import Start
from tests.support.broker.admin import wait_for_api
from tests.support.broker.events import wait_for_event
from tests.support.wire import connected

pytestmark = pytest.mark.once


def ctl(*arguments: object) -> tuple[int, str, str]:
    """Run `sluice ctl` in this process: status, standard output, standard error."""
    result = CliRunner().invoke(app, ["ctl", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_token() -> None:
    """`sluice ctl token` prints a new token each time, and an entry that the configuration accepts."""
    status, first, _ = ctl("token", "ann", "--role", "operator")
    _, second, _ = ctl("token", "bob")
    tokens = [re.search(r"^# The token: (\S{43})$", out, re.MULTILINE) for out in (first, second)]
    assert (status, tokens[0] is not None, tokens[1] is not None) == (0, True, True)
    admin = Config.model_validate({"admin": {"tokens": yaml.safe_load(first) + yaml.safe_load(second)}}).admin
    assert [(each.name, each.role) for each in admin.tokens] == [("ann", "operator"), ("bob", "viewer")]
    assert admin.tokens[0].sha256 != admin.tokens[1].sha256


@pytest.mark.parametrize("name", ["7", "null", "true", "1e3"])
def test_token_whose_name_is_no_text_in_yaml(name: str) -> None:
    """The entry has the name as text, whatever else YAML would take it for."""
    (entry,) = yaml.safe_load(ctl("token", name)[1])
    assert Config.model_validate({"admin": {"tokens": [entry]}}).admin.tokens[0].name == name


def test_token_with_a_name_that_the_configuration_refuses() -> None:
    """It is refused before there is a token."""
    status, out, err = ctl("token", "a: b")
    assert (status, out) == (2, "")
    assert "beginning with a letter or digit" in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("command", ["session", "disconnect", "end", "clear", "trace --client", "list clients --after"])
def test_names_that_are_not_utf8(tmp_path: Path, command: str) -> None:
    """A name that no client can have is refused before anybody is asked, with what is wrong about it."""
    (tmp_path / "a.sock").touch()
    status, _, err = ctl(*command.split(), "a\udcffb", "--socket", tmp_path / "a.sock")
    assert (status != 0, "a\\xffb" in err, "not UTF-8" in err) == (True, True, True)


def test_a_broker_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is told so soon, and for how long; a quick question is given up earlier than a list."""
    monkeypatch.setattr("broker.admin.client.SILENCE", 0.1)
    monkeypatch.setattr("broker.cli.ctl.QUICK", 0.3)
    with closing(socket.socket(socket.AF_UNIX)) as silent:
        silent.bind(str(tmp_path / "a.sock"))
        silent.listen()
        status, _, err = ctl("status", "--socket", tmp_path / "a.sock")
    told, gave_up = err.splitlines()
    assert (status, "it is waited for, up to 0.3 s in all" in told) == (1, True)
    assert "the broker has not answered within 0.3 s" in gave_up


def test_commands(start: Start, tmp_path: Path) -> None:
    """Each command does in a broker what it says, and prints the answer as JSON."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_api(broker, tmp_path / "a.sock")

    def run(*arguments: object) -> Any:
        status, out, err = ctl(*arguments, "--socket", tmp_path / "a.sock")
        assert (status, err) == (0, "")
        return json.loads(out)

    with connected(broker.address(), 5, client_id="a/b") as client:
        client.subscribe("t")
        assert run("status")["sessions"] == 1
        assert (run("health")["status"], run("ready")["ready"]) == ("ok", True)
        assert run("list", "clients", "--filter", "client_id=a")["items"][0]["client_id"] == "a/b"
        assert run("session", "a/b")["waits_for"] == "nothing"
        assert run("publish", "t", "hello", "--retain") == {"matched": True}
        assert client.receive_message().payload == b"hello"
        assert run("clear", "t") == {"count": 1}
        assert run("disconnect", "a/b") == {"result": "disconnected"}
        client.expect_close()
    with connected(broker.address(), 5, client_id="c"):
        assert run("end", "c") == {"result": "ended"}


def test_last_disconnect(start: Start, tmp_path: Path) -> None:
    """`sluice ctl session` says why and when a client was disconnected, while it is away and when it is back."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_api(broker, tmp_path / "a.sock")

    def last(client_id: str = "truck") -> Any:
        return json.loads(ctl("session", client_id, "--socket", tmp_path / "a.sock")[1])["last_disconnect"]

    kept: Any = {props.SESSION_EXPIRY_INTERVAL: 3600}
    with connected(broker.address(), 5, client_id="truck", clean_start=False, properties=kept) as client:
        assert last() is None
        client.reset()
    (line,) = wait_for_event(broker, "disconnected")
    away = last()
    assert away["reason"] == line["reason"] == "Connection lost"
    apart = datetime.fromisoformat(away["at"]) - datetime.fromisoformat(line["timestamp"])
    assert abs(apart) < timedelta(seconds=2)
    assert 0 <= away["ago_us"] < 60_000_000
    with (
        connected(broker.address(), 5, client_id="truck", clean_start=False, properties=kept),
        connected(broker.address(), 5, client_id="truck", clean_start=False, properties=kept),
    ):
        assert last()["reason"] == "Session taken over"


def test_refusals(start: Start, tmp_path: Path) -> None:
    """What the broker refuses ends the command with 1 and the reason; a wrong argument with 2."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_api(broker, tmp_path / "a.sock")
    path = tmp_path / "a.sock"
    status, out, err = ctl("end", "nobody", "--socket", path)
    # On a busy machine a line before that says that the API is being loaded.
    assert (status, out, err.splitlines()[-1]) == (1, "", f"sluice: {path}: there is no session 'nobody'")
    assert "the broker alone publishes under $SYS" in ctl("clear", "$SYS/#", "--socket", path)[2]
    assert "there is no address 'x'" in ctl("drain", "x", "--socket", path)[2]
    assert "sort: write mqueue, name" in ctl("list", "groups", "--sort", "x", "--socket", path)[2]
    assert ctl("list", "groups", "--filter", "x", "--socket", path)[0] == 2
    assert "there is no such socket" in ctl("status", "--socket", tmp_path / "none")[2]
