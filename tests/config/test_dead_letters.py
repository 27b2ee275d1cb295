"""FC-35: `config check` warns of dead letters that anybody may read, and of those that there will not be."""

from typing import Any

import pytest

from config.dead_letters import dead_letter_warnings
from config.models import Config

pytestmark = pytest.mark.once

KEY = "A" * 43 + "="
SCRAM = {"username": "ann", "salt": "A" * 16, "iterations": 4096, "stored_key": KEY, "server_key": KEY}
USERS: dict[str, Any] = {"authentication": {"scram": [SCRAM]}}


def warned(**sections: Any) -> list[str]:
    """The keys that are warned of."""
    events = {"topic": "dead/{client_id}", "payload": "copy", "max_rate": "infinity"} | sections.pop("drop_events", {})
    config = Config.model_validate({"drop_events": events, **sections})
    return [each.split(":")[0] for each in dead_letter_warnings(config)]


def rules(*own: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The section with these rules."""
    return {"authorization": {"rules": list(own), **more}}


def rule(permit: str, topic_filter: str, **more: Any) -> dict[str, Any]:
    """One rule."""
    return {"permit": permit, "topics": [topic_filter], **more}


READ = ["drop_events.topic"]


@pytest.mark.parametrize(
    "sections",
    [
        {},
        USERS,
        rules(rule("deny", "other/#")),
        rules(rule("allow", "#"), rule("deny", "dead/#")),
        rules(rule("allow", "dead/+"), default="deny"),
        rules(rule("deny", "dead/#", action="publish")),
        rules(rule("deny", "dead/#", users=["ann"])),
        rules(rule("deny", "+")),
        USERS | rules(rule("deny", "other"), default="allow"),
        {"drop_events": {"topic": "$SYS/dead"}} | rules(rule("deny", "#"), rule("deny", "+/dead")),
    ],
)
def test_anybody_may_read_them(sections: dict[str, Any]) -> None:
    """FC-35: copies hold what readers may not read on its own topic."""
    assert warned(**sections) == READ


@pytest.mark.parametrize(
    "sections",
    [
        rules(rule("deny", "dead/#")),
        rules(rule("deny", "#")),
        rules(rule("allow", "dead/#", users=["ann"]), rule("deny", "dead/+")),
        USERS | rules(rule("allow", "dead/#", users=["ann"])),
        {"authorization": {"default": "deny"}},
        {"authorization": {"deny_subscribe": ["dead/#"]}},
        {"authorization": {"rules_file": "rules.yaml"}},
        {"authorization": {"acl_file": "acl"}},
        {"authorization": {"plugins": [{"name": "own"}]}},
        {"drop_events": {"payload": "none"}},
    ],
)
def test_not_anybody_may(sections: dict[str, Any]) -> None:
    """FC-35: somebody has said who may read them, or may have."""
    assert warned(**sections) == []


def test_not_all_are_copied() -> None:
    """FC-35: with a rate some messages are counted only; without copies that is what is meant."""
    closed: dict[str, Any] = {"authorization": {"default": "deny"}}
    assert warned(drop_events={"max_rate": "10/s"}, **closed) == ["drop_events.max_rate"]
    assert warned(drop_events={"max_rate": "10/s", "payload": "none"}) == []
    assert dead_letter_warnings(Config()) == []
