"""broker/MIGRATION.md says what differs by our defaults: its figures and keys are those of the configuration."""

import re
from pathlib import Path

import pytest

from config.models import Config

pytestmark = pytest.mark.once

DOCUMENT = (Path(__file__).parents[1] / "broker" / "MIGRATION.md").read_text(encoding="utf-8")


def ours(about: str) -> str:
    """What the table of differences to Mosquitto says of Sluice, in the row about this."""
    table = DOCUMENT.partition("### What differs\n")[2].partition("\n### ")[0]
    (row,) = [line for line in table.splitlines() if line.startswith(f"| {about} |")]
    return row.split("|")[3]


def test_failed_logins() -> None:
    """So many failed logins lock out clients behind one address, or one user, by default."""
    text, limits = ours("failed logins"), Config().authentication.failed_logins
    assert re.findall("([0-9]+) (?:from|of) one (address|user)", text) == [
        (str(limits.per_address), "address"),
        (str(limits.per_user), "user"),
    ]
    assert ("refused for a minute" in text, limits.period) == (True, 60)
    assert "NAT" in text
    assert "`authentication.failed_logins.per_address`" in text


def test_overlapping_subscriptions() -> None:
    """One message for all of them is the default, and the key that makes it one for each is named."""
    text = ours("overlapping subscriptions of MQTT 5")
    assert (Config().mqtt.overlapping_subscriptions, "one message," in text) == ("merge", True)
    assert "`mqtt.overlapping_subscriptions: each`" in text
    Config.model_validate({"allow_anonymous": True, "mqtt": {"overlapping_subscriptions": "each"}})
