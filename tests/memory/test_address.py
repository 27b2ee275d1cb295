"""FC-24a: the limit of an address bounds what its deliveries take in memory, however small they are."""

from pathlib import Path
from typing import Any, Final

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.properties import Properties
from protocol.publish import Publish
from session.cost import cost
from tests.memory.tables import MEBIBYTE
from tests.support.brokers import start_sluice
from tests.support.wire import connected

pytestmark = pytest.mark.once

TOPIC: Final = b"small/messages"
LIMIT: Final = 10 * MEBIBYTE
CHUNK: Final = 500
KEPT: Final[Properties] = {props.SESSION_EXPIRY_INTERVAL: 3_600}
PAIRS: Final[Properties] = {props.USER_PROPERTY: [("a", ""), ("", "b"), ("c", "")]}


@pytest.mark.parametrize(("journal", "properties"), [(False, None), (True, None), (True, PAIRS)])
def test_small_messages(tmp_path: Path, journal: bool, properties: Properties | None) -> None:
    """FC-24a: payloads of 16 bytes for clients that are away take about as much memory as the limit says, not more."""
    sections: dict[str, Any] = {
        "addresses": [{"match": "small/#", "max_size_bytes": LIMIT, "full_policy": "fail"}],
        "session": {"max_mqueue_len": "infinity", "max_mqueue_bytes": "infinity"},
    }
    if journal:
        sections["persistence"] = {"directory": str(tmp_path / "journal"), "memory": "infinity"}
    with start_sluice(tmp_path, sections=sections) as broker:
        with connected(broker.address(), 5, client_id="away", properties=KEPT) as away:
            away.subscribe(TOPIC.decode(), qos=1)
        codes: list[int] = []
        with connected(broker.address(), 5) as sender:
            before = broker.rss()
            while reason_codes.QUOTA_EXCEEDED not in codes:
                messages = [Publish(TOPIC, bytes(16), 1, properties=properties, packet_id=n + 1) for n in range(CHUNK)]
                sender.send(*messages)
                codes += [sender.expect(Puback).reason_code for _ in messages]
            grown = broker.rss() - before
        assert codes.count(0) == LIMIT // cost(Publish(TOPIC, bytes(16), properties=properties))
        assert LIMIT // 4 < grown < LIMIT + 4 * MEBIBYTE
