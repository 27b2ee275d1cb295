"""The default file: equal to the defaults, complete, with unit, default and FC id for each key."""

import inspect
import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

import config
from config import (
    AddressSettings,
    Config,
    DropEvents,
    Listener,
    Priority,
    Quota,
    Rule,
    ScramUser,
    Session,
    SlowConsumer,
    Tls,
)
from config.bridge import Bridge, BridgeTls, BridgeTopic, BridgeWill
from config.http import Http
from config.models import ProxyProtocol, WebSocket
from config.plugins import Plugin
from config.postgres import Postgres
from config.schema import known_keys, section_at, written
from config.tokens import Jwt
from config.value_types import WRITTEN

pytestmark = pytest.mark.once

PATH = Path(inspect.getfile(config)).with_name("default.yaml")
BLOCKS = [block.splitlines() for block in PATH.read_text().split("\n\n")]
"""The lines of each section; sections are separated by one blank line."""


def documentation(section: str, key: str) -> str:
    """The comment above a key, or the comment that contains it, with the key's own line."""
    (lines,) = (block for block in BLOCKS if any(re.match(rf"(# )?{section}:", line) for line in block))
    pattern = rf"\s*(# *)?(- )?{key}:( \S|$)"
    *_, line = (number for number, text in enumerate(lines) if re.match(pattern, text))
    first = line
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return "\n".join(lines[first : line + 1])


def test_equals_the_defaults() -> None:
    """The file has the same effect as no file."""
    assert config.load(PATH, {}).config == Config()


def test_every_key_is_written() -> None:
    """Each key is in the file; only the node's name, which depends on the machine, is in a comment."""
    sources = config.load(PATH, {}).sources
    assert [key for key, source in sources.items() if source == "default"] == ["node_name"]


@pytest.mark.parametrize("path", [path for path in known_keys() if section_at(path) is None])
def test_every_key_is_documented(path: tuple[str, ...]) -> None:
    """The comment above each key has its meaning and its default in written form."""
    value: object = Config()
    for key in path:
        value = getattr(value, key)
    text = documentation(path[0], path[-1])
    shown = written(path, value)
    constants = {None: "null", True: "true", False: "false"}
    expected = str(constants.get(shown, shown)) if isinstance(shown, bool | None) else str(shown)
    if path == ("node_name",):
        expected = "the name of the machine"
    elif path == ("session", "await_rel_timeout"):
        expected = "300s"  # as in FC-22
    assert f"Default: {expected}" in text
    assert len(text) > 80


@pytest.mark.parametrize(
    ("section", "model"),
    [
        ("listeners", Listener),
        ("listeners", Tls),
        ("listeners", WebSocket),
        ("listeners", ProxyProtocol),
        ("authentication", Jwt),
        ("authentication", Postgres),
        ("authentication", Http),
        ("authentication", Plugin),
        ("authentication", ScramUser),
        ("authorization", Rule),
        ("session", Priority),
        ("addresses", AddressSettings),
        ("quotas", Quota),
        ("drop_events", DropEvents),
        ("bridges", Bridge),
        ("bridges", BridgeTopic),
        ("bridges", BridgeTls),
        ("bridges", BridgeWill),
    ],
)
def test_keys_in_lists_are_documented(section: str, model: type[BaseModel]) -> None:
    """Keys of list items are documented too, in the example if not in the default."""
    for key in model.model_fields:
        assert documentation(section, key)


def example(section: str, key: str) -> object:
    """The example in the comment above a list: the lines from `#   key:` to the default."""
    text = documentation(section, key)
    lines = text[text.index(f"#   {key}:") :].split("# Default: [")[0].splitlines()
    return yaml.safe_load("\n".join(re.sub(r"^ *# {0,3}", "", line) for line in lines))[key]


def test_examples_can_be_loaded() -> None:
    """The examples of priorities, addresses, quotas and bridges can be loaded."""
    flags = {"session.mqueue_priorities": example("session", "mqueue_priorities"), "persistence.directory": "journal"}
    loaded = config.load(None, {}, flags | {"addresses": example("addresses", "addresses")}).config
    assert loaded.session.mqueue_priorities == [Priority(match="alarms/#", weight=100)]
    assert loaded.addresses == [
        AddressSettings(match="telemetry/#", max_size_bytes=10 * 1024**2),
        AddressSettings(match="audit/+", max_size_bytes=1024**2, full_policy="page"),
    ]
    quotas = config.load(None, {}, {"quotas": example("quotas", "quotas")}).config.quotas
    assert quotas[0] == Quota(roles=["gateway"], max_connections=100, producer_max_rate=5000)
    assert None not in quotas[1].model_dump().values()
    cloud, modem = Config.model_validate({"bridges": example("bridges", "bridges")}, context={WRITTEN: True}).bridges
    assert {key for key in Bridge.model_fields if getattr(cloud, key) is None} == {"will"}
    assert (cloud.topics[1].local_filter, cloud.topics[1].remote_filter) == ("commands/#", "plant1/commands/#")
    assert modem.address == ["mqtt://10.0.0.5:1883", "mqtt://[fd00::5]:1884"]
    assert modem.will == BridgeWill(topic="plant1/lost", payload="lost", qos=1)


@pytest.mark.parametrize(
    ("section", "model", "key", "rule"),
    [
        ("session", Session, "max_inflight", "FC-1"),
        ("session", Session, "max_mqueue_len", "FC-5"),
        ("session", Session, "max_mqueue_bytes", "FC-5"),
        ("session", Session, "mqueue_overflow", "FC-5"),
        ("session", Session, "mqueue_store_qos0", "FC-7"),
        ("session", Session, "mqueue_priorities", "FC-12"),
        ("session", Session, "retry_interval", "FC-8"),
        ("session", Session, "consumer_window_size", "FC-10"),
        ("session", Session, "consumer_max_rate", "FC-11"),
        ("session", Session, "slow_consumer", "FC-14"),
        ("session", SlowConsumer, "threshold", "FC-14"),
        ("session", SlowConsumer, "check_period", "FC-14"),
        ("session", SlowConsumer, "policy", "FC-14"),
        ("session", Session, "stalled_window", "FC-14"),
        ("session", Session, "receive_maximum", "FC-20"),
        ("session", Session, "receive_maximum_policy", "FC-20"),
        ("session", Session, "max_awaiting_rel", "FC-22"),
        ("session", Session, "await_rel_timeout", "FC-22"),
        ("session", Session, "producer_max_rate", "FC-23"),
        ("session", Session, "producer_window_size", "FC-25"),
        ("addresses", AddressSettings, "match", "FC-24"),
        ("addresses", AddressSettings, "max_size_bytes", "FC-24"),
        ("addresses", AddressSettings, "full_policy", "FC-25, FC-26"),
        ("addresses", AddressSettings, "block_timeout", "FC-25"),
        ("addresses", AddressSettings, "reject_threshold_bytes", "FC-25"),
        ("addresses", AddressSettings, "page_limit_bytes", "FC-26"),
        ("addresses", AddressSettings, "page_full_policy", "FC-26"),
        *[("quotas", Quota, key, "FC-31") for key in Quota.model_fields],
        *[("drop_events", DropEvents, key, "FC-35") for key in DropEvents.model_fields],
    ],
)
def test_flow_control_names_its_rule(section: str, model: type[BaseModel], key: str, rule: str) -> None:
    """Each key of flow control names its rule, in the file and in the model."""
    assert f"# {rule}: " in documentation(section, key)
    source = inspect.getsource(model)
    after = source[re.search(rf"^    {key}: ", source, re.MULTILINE).end() :]  # type: ignore[union-attr]
    assert after[after.index('"""') + 3 :].startswith(f"{rule}: ")


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("Duration", "Duration"),
        ("FiniteDuration", "Duration"),
        ("Size", "Size"),
        ("FiniteSize", "Size"),
        ("LimitedSize", "Size"),
        ("Window", "Size"),
        ("Rate", "Count"),
    ],
)
def test_units_are_named(kind: str, word: str) -> None:
    """Durations and sizes are documented as such, because they need a unit."""
    models: list[tuple[str, type[BaseModel]]] = [("session", SlowConsumer), ("addresses", AddressSettings)]
    models += [(name, type(field)) for name, field in Config() if isinstance(field, BaseModel)]
    for section, model in models:
        for key in re.findall(rf"^    (\w+): {kind} =", inspect.getsource(model), re.MULTILINE):
            assert word in documentation(section, key)
