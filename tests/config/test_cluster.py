"""The number of workers, and what does not go with several."""

from typing import Any

import pytest

import config

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("written", "count"), [(1, 1), ("4", 4), (64, 64)])
def test_workers(written: object, count: int) -> None:
    """A number, also from a flag or a variable, as text."""
    assert config.load(None, {}, {"cluster.workers": written}).config.cluster.count == count


def test_auto_is_one_for_each_core() -> None:
    """Of the cores that this process may use."""
    assert 1 <= config.load(None, {}, {"cluster.workers": "auto"}).config.cluster.count <= 64


@pytest.mark.parametrize("written", [0, 65, -1, "two", True, 1.5])
def test_other_numbers_are_mistakes(written: object) -> None:
    """The error says what would be right."""
    with pytest.raises(config.ConfigError, match="write 1 to 64, or auto"):
        config.load(None, {}, {"cluster.workers": written})


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"addresses": [{"match": "a/#", "max_size_bytes": "1MB"}]}, "addresses"),
        ({"quotas": [{"users": ["a"], "max_retained_messages": 5}]}, "quotas[0].max_retained_messages"),
        ({"quotas": [{"max_connections": 5}, {"max_retained_bytes": "1KiB"}]}, "quotas[1].max_retained_bytes"),
    ],
)
def test_what_does_not_go_with_several(sections: dict[str, Any], key: str) -> None:
    """Each such key is named, with what helps; with one worker it is right."""
    with pytest.raises(config.ConfigError) as caught:
        config.load(None, {}, {"cluster.workers": 2} | sections)
    assert f"{key}: does not go with cluster.workers: 2 yet" in str(caught.value)
    config.load(None, {}, {"cluster.workers": 1} | sections)


def test_python_code_is_told_too() -> None:
    """A model with such keys is not valid either."""
    with pytest.raises(ValueError, match="does not go with cluster"):
        config.Config.model_validate({"cluster": {"workers": 2}, "quotas": [{"max_retained_messages": 5}]})
