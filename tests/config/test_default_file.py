"""The documented default file: equal to the defaults, complete, with unit, default and FC id for each key."""

import inspect
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

import config
from config import Config, Listener, ScramUser, Session, Tls
from config.schema import known_keys, section_at, written

pytestmark = pytest.mark.once

PATH = Path(inspect.getfile(config)).with_name("default.yaml")
LINES = PATH.read_text().splitlines()


def documentation(key: str) -> str:
    """The comment above a key, or the comment that holds it, with what stands on the key's own line."""
    pattern = rf"\s*(# *)?(- )?{key}:( \S|$)"
    *_, line = (number for number, text in enumerate(LINES) if re.match(pattern, text))
    first = line
    while LINES[first - 1].lstrip().startswith("#"):
        first -= 1
    return "\n".join(LINES[first : line + 1])


def test_equals_the_defaults() -> None:
    """Loading the file as it is gives the same as loading nothing."""
    assert config.load(PATH, {}).config == Config()


def test_every_key_is_written() -> None:
    """Each key is in the file; only the node's name, which differs by machine, stands in a comment."""
    sources = config.load(PATH, {}).sources
    assert [key for key, source in sources.items() if source == "default"] == ["node_name"]


@pytest.mark.parametrize("path", [path for path in known_keys() if section_at(path) is None])
def test_every_key_is_documented(path: tuple[str, ...]) -> None:
    """Above each key stand its meaning and its default, in the form that people write."""
    value: object = Config()
    for key in path:
        value = getattr(value, key)
    text = documentation(path[-1])
    shown = written(path, value)
    words = {None: "null", True: "true", False: "false"}
    expected = str(words.get(shown, shown)) if isinstance(shown, bool | None) else str(shown)
    if path == ("node_name",):
        expected = "the name of the machine"
    elif path == ("session", "await_rel_timeout"):
        expected = "300s"  # as FC-22 has it
    assert f"Default: {expected}" in text
    assert len(text) > 80


@pytest.mark.parametrize("key", [*Listener.model_fields, *Tls.model_fields, *ScramUser.model_fields])
def test_keys_in_lists_are_documented(key: str) -> None:
    """Keys of listeners, TLS and users are there too, in the example if not in the default."""
    assert documentation(key)


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("max_inflight", "FC-1"),
        ("max_mqueue_len", "FC-5"),
        ("max_mqueue_bytes", "FC-5"),
        ("mqueue_overflow", "FC-5"),
        ("mqueue_store_qos0", "FC-7"),
        ("retry_interval", "FC-8"),
        ("receive_maximum", "FC-20"),
        ("receive_maximum_policy", "FC-20"),
        ("max_awaiting_rel", "FC-22"),
        ("await_rel_timeout", "FC-22"),
    ],
)
def test_flow_control_names_its_rule(key: str, rule: str) -> None:
    """Each key of flow control names the rule that it belongs to, in the file and at the model."""
    assert f"# {rule}: " in documentation(key)
    source = inspect.getsource(Session)
    after = source[re.search(rf"^    {key}: ", source, re.MULTILINE).end() :]  # type: ignore[union-attr]
    assert after[after.index('"""') + 3 :].startswith(f"{rule}: ")


@pytest.mark.parametrize(
    ("kind", "word"),
    [("Duration", "Duration"), ("FiniteDuration", "Duration"), ("Size", "Size"), ("FiniteSize", "Size")],
)
def test_units_are_named(kind: str, word: str) -> None:
    """Durations and sizes are called so, since they need a unit."""
    for section in (type(field) for field in vars(Config()).values() if isinstance(field, BaseModel)):
        for key in re.findall(rf"^    (\w+): {kind} =", inspect.getsource(section), re.MULTILINE):
            assert f"{word}" in documentation(key)
