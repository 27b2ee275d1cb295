"""broker/MQTT.md has each reason code that clients can get, and no other."""

import re
from pathlib import Path

import pytest

from protocol import reason_codes

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
NOT_SENT = {"SUCCESS", "NORMAL_DISCONNECTION", "CONTINUE_AUTHENTICATION", "RE_AUTHENTICATE", "BANNED"}
NOT_SENT |= {"DISCONNECT_WITH_WILL_MESSAGE"}
"""No refusals, (0x8A) not used by the broker, or (0x04) what only clients send."""


def test_reason_codes() -> None:
    """The table of reason codes has those that the broker and the session name, and those of the protocol's errors."""
    text = (ROOT / "broker" / "MQTT.md").read_text(encoding="utf-8").partition("## Reason codes that clients get")[2]
    first_cells = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    listed = {int(code, 16) for cell in first_cells for code in re.findall(r"0x([0-9A-F]{2})", cell)}
    imported = (ROOT / "protocol" / "errors.py").read_text().partition("from protocol.reason_codes import (")[2]
    used = set(re.findall(r"[A-Z_]+", imported.partition(")")[0]))
    for folder in ("broker", "session"):
        for file in (ROOT / folder).rglob("*.py"):
            used |= set(re.findall(r"reason_codes\.([A-Z_]+)", file.read_text(encoding="utf-8")))
    assert listed == {getattr(reason_codes, name) for name in used - NOT_SENT}
