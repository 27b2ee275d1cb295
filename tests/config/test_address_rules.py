"""Rules between keys of addresses and priorities (FC-12, FC-24 to FC-26), on the keys that could be parsed."""

import pytest

from config import address_rules, partial
from config.layers import dotted

pytestmark = pytest.mark.once


def broken(*addresses: object, journal: bool | None = True, priorities: list[object] | None = None) -> list[str]:
    """The paths of the rules that these entries break."""
    entries = partial.addresses({"addresses": list(addresses)})
    weights = partial.priorities({"session": {"mqueue_priorities": priorities or []}})
    return [dotted(problem.path) for problem in address_rules.broken(entries, journal, weights)]


def address(**keys: object) -> dict[str, object]:
    """A written address with its required keys."""
    return {"match": "a/#", "max_size_bytes": "1MiB"} | keys


def test_each_filter_stands_once() -> None:
    """FC-12, FC-24: the same filter twice is a mistake of the later one, in addresses and in priorities."""
    assert broken(address(), address(match="a/b"), address(match="a")) == []
    assert broken(address(), address(match="b"), address(), address()) == ["addresses[2].match", "addresses[3].match"]
    priorities: list[object] = [{"match": "a", "weight": 1}, {"match": "a", "weight": 2}]
    assert broken(priorities=priorities) == ["session.mqueue_priorities[1].match"]


@pytest.mark.parametrize(
    ("threshold", "valid"),
    [("infinity", True), (-1, True), ("1MiB", True), ("2MiB", True), (1048575, False), (0, False), ("?", True)],
)
def test_the_reject_threshold_is_no_less_than_the_limit(threshold: object, valid: bool) -> None:
    """FC-25: the threshold covers held and parked bytes."""
    assert broken(address(reject_threshold_bytes=threshold)) == (
        [] if valid else ["addresses[0].reject_threshold_bytes"]
    )


def test_paging_needs_a_journal() -> None:
    """FC-26: `page` needs `persistence.directory`; one that could not be parsed counts."""
    assert broken(address(full_policy="page"), journal=False) == ["addresses[0].full_policy"]
    assert broken(address(full_policy="page"), journal=None) == []
    assert broken(address(full_policy="drop"), journal=False) == []


@pytest.mark.parametrize(
    ("key", "value", "policy"),
    [
        ("block_timeout", "1m", "block"),
        ("reject_threshold_bytes", "2MiB", "block"),
        ("page_limit_bytes", "1GiB", "page"),
        ("page_full_policy", "drop", "page"),
    ],
)
def test_keys_without_effect(key: str, value: object, policy: str) -> None:
    """FC-25, FC-26: a key without effect under the address's policy is a mistake, unless it has its default value."""
    for other in ("block", "page", "drop", "fail"):
        valid = other == policy
        assert broken(address(full_policy=other) | {key: value}) == ([] if valid else [f"addresses[0].{key}"])
    assert broken(address(full_policy="never heard of") | {key: value}) == []
    defaults = {
        "block_timeout": "30s",
        "reject_threshold_bytes": -1,
        "page_limit_bytes": "infinity",
        "page_full_policy": "fail",
    }
    for other in ("block", "page", "drop", "fail"):
        assert broken(address(full_policy=other, **defaults)) == []


def test_the_message_says_how_to_mend_it() -> None:
    """Each message says what was expected."""
    entries = partial.addresses(
        {"addresses": [address(reject_threshold_bytes="1KiB", page_limit_bytes="1MiB"), address(full_policy="page")]}
    )
    assert [problem.message for problem in address_rules.broken(entries, False, [])] == [
        "found 'a/#', which addresses[0] has too: keep one of them",
        "found 1KiB, less than max_size_bytes: write 1MiB or more, or infinity for no limit",
        "has no effect with full_policy: block: leave it out, or set full_policy: page",
        "found page without persistence.directory: set that, because pages are in the journal",
    ]


@pytest.mark.parametrize("raw", [None, 5, {}, "a", [None], [5, "a"], [{}], [{"match": 5}], [{"max_size_bytes": []}]])
def test_what_is_not_understood_breaks_no_rule(raw: object) -> None:
    """Other mistakes are reported elsewhere and cause no false ones here."""
    entries = partial.addresses({"addresses": raw})
    assert address_rules.broken(entries, False, partial.priorities({"session": {"mqueue_priorities": raw}})) == []
    assert partial.priorities({"session": raw}) == []


@pytest.mark.parametrize(
    ("raw", "understood"),
    [
        ({}, False),
        ({"persistence": {}}, False),
        ({"persistence": {"directory": None}}, False),
        ({"persistence": {"directory": "journal"}}, True),
        ({"persistence": {"directory": 5}}, True),
        ({"persistence": 5}, None),
    ],
)
def test_what_is_understood_of_the_journal(raw: dict[str, object], understood: bool | None) -> None:
    """An invalid directory counts, so that it is the only mistake reported."""
    assert partial.journal(raw) is understood
