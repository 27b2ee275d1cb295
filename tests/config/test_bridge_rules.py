"""Bridges that would take over each other's connections are refused."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import config
from config.bridge import Bridge

pytestmark = pytest.mark.once


def keys(*bridges: dict[str, Any]) -> list[dict[str, Any]]:
    """Bridges with these keys, each with what it needs."""
    common = {"address": "h", "topics": [{"filter": "a/#"}]}
    return [{"name": f"b{index}"} | common | each for index, each in enumerate(bridges)]


def loaded(path: Path, *bridges: dict[str, Any]) -> config.Loaded:
    """A configuration with these bridges, of a node called `node`."""
    own = {"node_name": "node", "bridges": keys(*bridges), "metrics.directory": path / "metrics"}
    return config.load(None, {}, own)


@pytest.mark.parametrize(
    ("one", "other", "client_id"),
    [
        ({"client_id": "x"}, {"client_id": "x"}, "x"),
        ({"client_id": "x", "address": ["a", "mqtts://H:1883"]}, {"client_id": "x", "address": ["b", "h"]}, "x"),
        ({"client_id": "node-b1"}, {}, "node-b1"),
        ({}, {"client_id": "node-b0"}, "node-b0"),
    ],
)
def test_same_client_id_at_one_broker(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], client_id: str
) -> None:
    """The loader and Python code say which two have it, where, and what to write."""
    with pytest.raises(config.ConfigError) as caught:
        loaded(tmp_path, one, other)
    assert {each.path: each.message for each in caught.value.problems} == {
        "bridges[1].client_id": f"found {client_id!r}, which is the client id of bridges[0] (b0) too, at the same "
        "remote broker, h:1883: each would take over the other's connection, for ever; give each bridge its own "
        "client_id, or leave it out for node_name, a hyphen and the bridge's name"
    }
    with pytest.raises(ValidationError, match=r"bridges\[1\]\.client_id: found"):
        config.Config(node_name="node", bridges=[Bridge.model_validate(each) for each in keys(one, other)])


@pytest.mark.parametrize(
    "other",
    [
        {"client_id": "y"},
        {},
        {"client_id": "x", "address": "other"},
        {"client_id": "x", "address": "h:1884"},
        {"client_id": "x", "enabled": False},
        {"client_id": "x", "address": "ws://h:1883/b"},
    ],
)
def test_client_ids_that_do_not_meet(tmp_path: Path, other: dict[str, Any]) -> None:
    """Another client id, broker or path is right, and so is a bridge that is not enabled."""
    assert len(loaded(tmp_path, {"client_id": "x"}, other).config.bridges) == 2


@pytest.mark.parametrize("wrong", [{"client_id": 5}, {"address": "h:x"}, {"name": None}])
def test_a_mistake_causes_no_other_one(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """What cannot be parsed is told, and not compared."""
    with pytest.raises(config.ConfigError) as caught:
        loaded(tmp_path, {"client_id": "x"}, {"client_id": "x"} | wrong)
    expected = {"client_id": "bridges[1].client_id", "address": "bridges[1].address", "name": "bridges[1].name"}
    assert expected[next(iter(wrong))] in {each.path for each in caught.value.problems}
    assert sum("take over" in each.message for each in caught.value.problems) == ("name" in wrong)
