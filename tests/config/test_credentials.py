"""Neither `config show` nor any message shows the keys of users."""

import json
from base64 import b64encode
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

import config
from config import Config, ConfigError

pytestmark = pytest.mark.once

STORED_KEY = b64encode(b"s" * 32).decode()
SERVER_KEY = b64encode(b"k" * 32).decode()
USER: dict[str, object] = {
    "username": "ann",
    "salt": b64encode(b"salt" * 4).decode(),
    "iterations": 4096,
    "stored_key": STORED_KEY,
    "server_key": SERVER_KEY,
}
PASSWORD = "hunter2"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the test's file."""
    return tmp_path / "sluice.yaml"


def test_show(path: Path) -> None:
    """A user is shown without the keys, and no form of the configuration has them in clear."""
    path.write_text(yaml.safe_dump({"authentication": {"scram": [USER]}}))
    loaded = config.load(path, {})
    text = config.render(loaded)
    shown = yaml.safe_load(text)["authentication"]["scram"]
    assert shown == [{**USER, "stored_key": "***", "server_key": "***", "roles": []}]
    for form in (text, repr(loaded), str(loaded.config), loaded.config.model_dump_json()):
        assert STORED_KEY not in form
        assert SERVER_KEY not in form
    assert loaded.config.authentication.scram[0].stored_key.get_secret_value() == STORED_KEY


@pytest.mark.parametrize(
    "wrong",
    [
        {"stored_key": PASSWORD},
        {"server_key": PASSWORD},
        {"stored_key": PASSWORD, "server_key": [PASSWORD]},
        {"stored_key": {PASSWORD: PASSWORD}},
        {"salt": PASSWORD},
        {"password": PASSWORD},
        {"username": ""},
        {"iterations": 1},
    ],
)
def test_mistakes_in_an_entry(path: Path, wrong: dict[str, object]) -> None:
    """No message about an entry quotes a value that could be a key or a password."""
    section = {"authentication": {"scram": [{**USER, **wrong}]}}
    path.write_text(yaml.safe_dump(section))
    with pytest.raises(ConfigError) as caught:
        config.load(path, {})
    with pytest.raises(ValidationError) as caught_in_python:
        Config.model_validate(section)
    assert caught.value.problems
    for text in (str(caught.value), str(caught_in_python.value)):
        for secret in (STORED_KEY, SERVER_KEY, PASSWORD):
            assert secret not in text


@pytest.mark.parametrize(
    "section", [PASSWORD, {"scram": PASSWORD}, {"scram": [PASSWORD]}, {"scram": {"ann": PASSWORD}}, {"ann": PASSWORD}]
)
def test_mistakes_around_entries(path: Path, section: object) -> None:
    """Text in place of a list or an entry is not quoted either."""
    path.write_text(yaml.safe_dump({"authentication": section}))
    (problem,) = config.check(path)
    assert problem.path.startswith("authentication")
    assert PASSWORD not in str(problem)


@pytest.mark.parametrize("name", ["SLUICE_AUTHENTICATION", "SLUICE_AUTHENTICATION__SCRAM"])
def test_variables(name: str) -> None:
    """Users may come from a variable; invalid JSON is not quoted."""
    users: object = [USER]
    value = json.dumps(users if name.endswith("SCRAM") else {"scram": users})
    assert len(config.load(None, {name: value}).config.authentication.scram) == 1
    with pytest.raises(ConfigError) as caught:
        config.load(None, {name: value[:-1]})
    assert "is not JSON" in str(caught.value)
    assert STORED_KEY not in str(caught.value)


def test_two_entries_of_one_user(path: Path) -> None:
    """The message about a duplicate user has the name."""
    path.write_text(yaml.safe_dump({"authentication": {"scram": [USER, dict(USER)]}}))
    (problem,) = config.check(path)
    assert (problem.path, problem.message) == (
        "authentication.scram",
        "found 'ann' 2 times: keep one entry of each user",
    )


def test_users_let_a_listener_be_open(path: Path) -> None:
    """With users, even invalid ones, a listener may be reachable from other machines; [] is no users."""
    listeners = [{"bind": "0.0.0.0:0"}]
    for users, mistakes in (([USER], []), ([{**USER, "salt": ""}], ["authentication.scram[0].salt"])):
        path.write_text(yaml.safe_dump({"listeners": listeners, "authentication": {"scram": users}}))
        assert [problem.path for problem in config.check(path)] == mistakes
    path.write_text(yaml.safe_dump({"listeners": listeners, "authentication": {"scram": []}}))
    assert [problem.path for problem in config.check(path)] == ["listeners[0].bind"]
