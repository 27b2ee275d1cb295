"""Packets that clients with a session begin and leave: they do not take the memory that the watermark keeps free."""

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from broker.connection.incomplete import SHARE
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.broker.server.test_websocket_request import REQUEST
from tests.memory.tables import MEBIBYTE
from tests.support.broker.events import events, wait_for_event
from tests.support.brokers import Listener, start_sluice
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

SIZE: Final = 1_000_000
CLIENTS: Final = 150
"""150 MB of packets."""
ROOM: Final = 60 * MEBIBYTE
"""Between what the broker takes and the watermark."""
BETWEEN: Final = 60 * MEBIBYTE
"""What the broker may read between two looks at its memory."""
PACKET: Final = Publish(b"t", bytes(SIZE), 1, packet_id=1).encode(5)
PIECE: Final = 2_000
"""Bytes that the slow client sends at a time, each time that another client has come."""
FRAME: Final = bytes((0x82, 0xFF)) + len(PACKET).to_bytes(8) + bytes(4)
"""The header of a frame of WebSocket that a whole packet is in, with a mask of zeros."""


def begin(stack: ExitStack, broker: BrokerProcess, websocket: bool) -> WireClient:
    """A client that has sent all of a large packet but its end."""
    client = stack.enter_context(WireClient(broker.address("ws" if websocket else "tcp"), 5))
    connect = Connect("", version=5).encode(5)
    if websocket:
        client.send(REQUEST, bytes((0x82, 0x80 | len(connect))) + bytes(4) + connect)
        received = b""
        while b"\x20" not in received.rpartition(b"\r\n\r\n")[2]:  # CONNACK
            received += client.socket.recv(4_096)
        client.send(FRAME + PACKET[:-1])
    else:
        client.send(connect)
        assert client.expect(Connack).reason_code == 0
        client.send(PACKET[:-1])
    return client


@pytest.mark.parametrize("websocket", [False, True])
def test_incomplete_packets(tmp_path: Path, websocket: bool) -> None:
    """However many are begun, the memory stays near the watermark, and a slow client's own packet gets through."""
    listeners = (Listener(), Listener("ws", websocket=True))
    with start_sluice(tmp_path, listeners=listeners) as calm:
        watermark = calm.rss() + ROOM
    with start_sluice(tmp_path, listeners=listeners, sections={"memory_watermark": watermark}) as broker:
        with ExitStack() as stack:
            slow = stack.enter_context(WireClient(broker.address("tcp"), 5))
            slow.connect("slow")
            clients, sizes = [], []
            for number in range(CLIENTS):
                clients.append(begin(stack, broker, websocket))
                slow.send(PACKET[number * PIECE : (number + 1) * PIECE])
                if number % 10 == 9:
                    sizes.append(broker.rss())
            assert max(sizes) < watermark + 2 * watermark // SHARE + BETWEEN
            wait_for_event(broker, "memory_high")
            slow.send(PACKET[CLIENTS * PIECE :])
            assert slow.expect(Puback).reason_code == reason_codes.NO_MATCHING_SUBSCRIBERS
            if not websocket:
                assert _reason(clients[0]) == reason_codes.QUOTA_EXCEEDED
            wait_for_event(broker, "memory_low", seconds=20)
        (event,) = events(broker, "quota_reached")
        assert event["quota"] == "memory_watermark"


def _reason(client: WireClient) -> int:
    last = client.expect_close()
    assert isinstance(last, Disconnect)
    return last.reason_code
