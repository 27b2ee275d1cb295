"""The way of a QoS 1 PUBLISH through the code: how long it is, and whether broker/ARCHITECTURE.md draws it as it is."""

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import pytest

from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.conftest import how_it_runs
from tests.support.broker.local import LocalBroker, LocalClient

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(how_it_runs()[0] != "interpreted", reason="a profiler does not see compiled functions"),
]

ROOT: Final = Path(__file__).parent.parent
FILES: Final = 16
CALLS: Final = 40
"""From the publisher's bytes to the subscriber's PUBACK, both included; nobody else is connected."""

NOT_COUNTED: Final = ("start_run", "_end_run")
"""A histogram calls them for a value that is not in the bucket of the last one, as on a busy machine."""

MESSAGES: Final = 20
"""The shortest way of so many counts."""


class Call(NamedTuple):
    """A function of ours that has been called."""

    file: str
    function: str


def calls_of(local: LocalBroker, client: LocalClient, data: bytes) -> list[Call]:
    """What the broker calls from reading this until all sessions have run, in protocol/, session/ and broker/."""
    calls: list[Call] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if event == "call" and path.is_relative_to(ROOT) and not code.co_name.startswith("<"):
            file = path.relative_to(ROOT).as_posix()
            if file.startswith(("protocol/", "session/", "broker/")) and code.co_name not in NOT_COUNTED:
                calls.append(Call(file, code.co_name))

    def read() -> None:
        sys.setprofile(note)
        client.socket.data_received(data)

    try:
        local.run(read)
    finally:
        sys.setprofile(None)
    return calls


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    """The calls for one message on a cached topic, from an idle publisher to an idle subscriber."""
    ways = []
    with LocalBroker() as local:
        subscriber, publisher = local.client(4), local.client(4)
        subscriber.connect("subscriber")
        subscriber.subscribe("t", 1)
        publisher.connect("publisher")
        for packet_id in range(1, MESSAGES + 1):  # the first one fills the cache of topics
            way = calls_of(local, publisher, Publish(b"t", b"x", 1, packet_id=packet_id).encode(4))
            assert publisher.expect(Puback).packet_id == packet_id
            delivery = subscriber.expect(Publish)
            ways.append(way + calls_of(local, subscriber, Puback(delivery.packet_id or 0).encode(4)))
    return min(ways, key=len)


def test_the_way_of_a_publish_gets_no_longer(calls: list[Call]) -> None:
    """A QoS 1 PUBLISH with both PUBACKs passes at most CALLS functions in FILES files."""
    assert len(calls) <= CALLS, calls
    assert len({call.file for call in calls}) <= FILES


def test_the_picture_shows_the_way_of_a_publish(calls: list[Call]) -> None:
    """Each box of the picture in ARCHITECTURE.md is a function that a PUBLISH passes, or `overflow` if FULL."""
    text = (ROOT / "broker" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    boxes = re.findall(r"\[(\w+/\w+\.py)<br>(?:\w+\.)?(\w+)", text)
    assert len(boxes) > 10
    passed = {(call.file.removeprefix("broker/"), call.function) for call in calls}
    assert [box for box in boxes if box not in passed] == [("addresses/policy.py", "overflow")]
