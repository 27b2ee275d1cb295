"""What a session waits for, and the words for it: each reason, in a broker over sockets."""

from pathlib import Path
from typing import Any

import pytest

from broker.admin import waiting
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.publish import Publish
from spark_jobs import formats
from spark_jobs.page import trouble
from tests.broker.conftest import Start
from tests.support.broker.admin import listed, request
from tests.support.broker.events import wait_for_event
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once


def reason(path: Path, client_id: str = "slow") -> str:
    """What one session waits for."""
    rows = listed(path, "sessions", f"client_id={client_id}")["items"]
    return str(rows[0]["waits_for"]) if rows else "gone"


def test_words_are_those_of_the_report() -> None:
    """Who knows a reason from the report finds the same words in the dashboard."""
    assert waiting.because(waiting.WINDOW) == f"{formats.reason('window_full')}, {trouble.because('window_full')[2]}"
    assert waiting.because(waiting.CLIENT) == formats.reason("offline")


def test_a_publisher(start: Start, tmp_path: Path) -> None:
    """Of a session to which nothing was ever offered it is not said that what is offered is sent at once."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"
    with connected(broker.address(), client_id="sensor") as sensor, connected(broker.address(), client_id="pc") as pc:
        pc.subscribe("t", qos=1)
        sensor.publish("t", b"1", 1)
        pc.expect(Publish)
        told = [request(path, f"/api/v1/sessions/{name}").json["advice"] for name in ("sensor", "pc")]
    assert ["It may only publish" in told[0], "is sent at once" in told[1]] == [True, True]


@pytest.mark.parametrize(
    ("session", "receive_maximum", "expected", "advice"),
    [
        ({}, 2, "window", "The limit is the client's own Receive Maximum, 2 now"),
        ({"max_inflight": 2}, 3, "window", "The limit is session.max_inflight, 2 now. "),
        ({"consumer_max_rate": 1}, 100, "rate", "The limit is session.consumer_max_rate, 1 a second now."),
        ({"consumer_window_size": 100}, 100, "byte window", "The limit is session.consumer_window_size"),
    ],
)
def test_limits(
    start: Start, tmp_path: Path, session: dict[str, object], receive_maximum: int, expected: str, advice: str
) -> None:
    """A session with a backlog waits for the limit that holds it back: list and advice name it."""
    broker = start(sections={"admin": {"socket": "a.sock"}, "session": session})
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"
    properties: Any = {props.RECEIVE_MAXIMUM: receive_maximum}
    with (
        connected(broker.address(), 5, client_id="slow", properties=properties) as slow,
        connected(broker.address(), 5, client_id="sender") as sender,
    ):
        slow.subscribe("t", qos=1)
        assert reason(path) == "nothing"
        for _ in range(20):
            sender.publish("t", b"x" * 60, 1)
        wait_until(lambda: reason(path) == expected, "it waits")
        found = listed(path, "sessions", f"waits_for={expected.replace(' ', '+')}")
        assert [row["client_id"] for row in found["items"]] == ["slow"]
        assert advice in request(path, "/api/v1/sessions/slow").json["advice"]


def test_publishers_wait_for_it(start: Start, tmp_path: Path) -> None:
    """FC-34: while PUBLISHes wait for room in its mqueue, the advice says so; afterwards it does not."""
    held = {"mqueue_overflow": "block", "max_mqueue_len": 3, "overflow_patience": 0}
    broker = start(sections={"admin": {"socket": "a.sock"}, "session": held})
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"

    def says_so() -> bool:
        return "PUBLISHes wait until it has room" in request(path, "/api/v1/sessions/slow").json["advice"]

    with (
        connected(broker.address(), 5, client_id="slow", properties={props.RECEIVE_MAXIMUM: 1}) as slow,
        connected(broker.address(), 5, client_id="sender") as sender,
    ):
        slow.subscribe("t", qos=1)
        sender.send(*(Publish(b"t", b"x", 1, packet_id=each) for each in range(1, 6)))
        wait_until(says_so, "the fifth one waits")
        for _ in range(5):
            slow.send(Puback(slow.expect(Publish).packet_id))
        wait_until(lambda: not says_so(), "none waits any more")


def test_send_path_and_client(start: Start, tmp_path: Path) -> None:
    """A session whose client does not read waits for the send path; when the client has gone, for the client."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"
    with connected(broker.address(), 5, client_id="sender") as sender:
        properties: Any = {props.SESSION_EXPIRY_INTERVAL: 100}
        with WireClient(broker.address(), 5, receive_buffer=1024) as slow:
            slow.connect("slow", properties=properties)
            slow.subscribe("t", qos=1)
            for _ in range(100):
                sender.publish("t", b"x" * 100_000, 0)
            wait_until(lambda: reason(path) == "send path", "it is congested")
        wait_until(lambda: reason(path) == "client", "it is away")


def test_disk(start: Start, tmp_path: Path) -> None:
    """FC-29: a member of a group waits for the disk when the journal has no room for what the group has for it."""
    small = {"directory": str(tmp_path / "journal"), "max_bytes": "4KiB"}
    segment = "import broker.storage.spares as spares; spares.SEGMENT = 8192"
    broker = start(sections={"admin": {"socket": "a.sock"}, "persistence": small}, prepare=segment)
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"
    properties: Any = {props.SESSION_EXPIRY_INTERVAL: 100, props.RECEIVE_MAXIMUM: 1}
    with (
        connected(broker.address(), 5, client_id="slow", properties=properties) as slow,
        connected(broker.address(), 5, client_id="sender") as sender,
    ):
        slow.subscribe("$share/g/t", qos=1)
        sender.publish("t", b"x" * 1000, 1)
        assert reason(path) == "nothing"
        sender.publish("t", b"x" * 20_000, 1)
        slow.send(Puback(slow.expect(Publish).packet_id))
        wait_until(lambda: reason(path) == "disk", "it waits")
        advice = request(path, "/api/v1/sessions/slow").json["advice"]
        assert "has no room" in advice
