"""FC-39: profiles of listeners: what they have of `session`, what they may not have, and how they are shown."""

from pathlib import Path

import pytest

import config
from config import Config, ConfigError
from config.render import render
from config.session import ListenerSession, Session, SlowConsumer

pytestmark = pytest.mark.once

FILE = """\
listeners:
  - {name: outside, bind: "127.0.0.1:0"}
  - name: inside
    bind: "127.0.0.1:0"
    session:
      max_inflight: 128
      slow_consumer: {policy: disconnect}
session: {max_mqueue_len: 7, slow_consumer: {threshold: 3}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a profile."""
    file = tmp_path / "sluice.yaml"
    file.write_text(FILE)
    return file


def test_the_rest_is_as_in_session(path: Path) -> None:
    """A profile has the keys that are given, also in a section, over those of `session`; no profile is none."""
    slow = SlowConsumer(threshold=3, policy="disconnect")
    assert config.load(path, {}).config.profiles == {
        "inside": Session(max_inflight=128, max_mqueue_len=7, slow_consumer=slow)
    }


def test_the_default_can_be_given() -> None:
    """A key that is given counts, also if its value is the default."""
    given = {"bind": "127.0.0.1:0", "session": {"max_inflight": 32}}
    profiles = Config.model_validate({"listeners": [given], "session": {"max_inflight": 5}}).profiles
    assert profiles["default"].max_inflight == 32


def test_what_is_given_is_shown(path: Path) -> None:
    """`config show` has the keys that are given with their places, no others, and can be loaded again."""
    loaded = config.load(path, {})
    keys = {key: source for key, source in loaded.sources.items() if key.startswith("listeners[1].session")}
    assert keys == {
        "listeners[1].session.max_inflight": f"{path}:6",
        "listeners[1].session.slow_consumer.policy": f"{path}:7",
    }
    text = render(loaded)
    assert [line.split()[1] for line in text.splitlines() if "max_inflight:" in line] == ["128", "32"]
    path.write_text(text)
    assert config.load(path, {}).config.profiles == loaded.config.profiles


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("mqueue_fairness: user", "groups and the journal have one order for all listeners: write it in session"),
        ("mqueue_priorities: []", "groups and the journal have one order for all listeners: write it in session"),
        ("group_order: any", "groups and the journal have one order for all listeners: write it in session"),
        ("conflate: []", "groups and the journal have one order for all listeners: write it in session"),
        ("overflow_timeout: 5s", "a PUBLISH waits for the receivers of all listeners: write it in session"),
        ("receive_maximum: 5", "CONNACK says the same at all listeners: write it in session"),
        ("producer_window_size: 1KiB", "addresses have one producer window for all listeners: write it in session"),
        ("max_inflight: -1", "found -1, which is below zero: write a whole number, or infinity for no limit"),
        ("max_inflght: 1", "unknown key; did you mean 'max_inflight'?"),
    ],
)
def test_what_is_refused(path: Path, key: str, why: str) -> None:
    """Keys of which there is only one, and mistakes, are refused at their place."""
    path.write_text(FILE.replace("max_inflight: 128", key))
    with pytest.raises(ConfigError) as caught:
        config.load(path, {})
    (problem,) = caught.value.problems
    assert (problem.path, problem.line, problem.message) == (f"listeners[1].session.{key.partition(':')[0]}", 6, why)


def test_from_code() -> None:
    """A profile says what it was given, and nothing of its own defaults."""
    assert ListenerSession(retry_interval=5).over(Session(max_inflight=3)) == Session(retry_interval=5, max_inflight=3)
