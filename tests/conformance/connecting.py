"""CONNECT encoded by hand, with any mistake in it, and the answers that a server may give."""

import struct

from protocol.connack import Connack
from tests.conformance.by_hand import packet, string, variable_byte_integer
from tests.conformance.delivery import REFUSED
from tests.support.wire import WireClient

CLEAN = 0x02
WILL = 0x04
WILL_RETAIN = 0x20
PASSWORD = 0x40
USER_NAME = 0x80

NO_SUCH_METHOD = b"\x15" + string("no such method")
"""An Authentication Method that no server knows."""


def connect(
    version: int,
    client_id: str | bytes,
    payload: bytes = b"",
    *,
    flags: int = CLEAN,
    keep_alive: int = 0,
    properties: bytes = b"",
    name: str | bytes = "MQTT",
    level: int | None = None,
    first: int = 0x10,
) -> bytes:
    """Return a CONNECT; `payload` is what follows the client id, `properties` what follows their length."""
    head = string(name) + struct.pack("!BBH", version if level is None else level, flags, keep_alive)
    return packet(first, head + (block(properties) if version == 5 else b"") + string(client_id) + payload)


def block(properties: bytes = b"") -> bytes:
    """Return properties with their length in front."""
    return variable_byte_integer(len(properties)) + properties


def will(version: int, topic: str | bytes, message: bytes = b"", properties: bytes = b"") -> bytes:
    """Return the fields of a will in the payload of CONNECT."""
    return (block(properties) if version == 5 else b"") + string(topic) + string(message)


def refusal(version: int, client_id: str, payload: bytes = b"", *, flags: int = CLEAN) -> bytes:
    """Return a CONNECT that every server has to refuse although it is well-formed."""
    if version == 5:
        return connect(5, client_id, payload, flags=flags, properties=NO_SUCH_METHOD)  # [MQTT-4.12.0-1]
    return connect(4, client_id, payload, flags=flags, level=2)  # 3.1.1: [MQTT-3.1.2-2]


def accepted(client: WireClient, data: bytes) -> Connack:
    """Send a CONNECT, which has to be accepted; returns the CONNACK."""
    client.send(data)
    connack = client.expect(Connack)
    assert connack.reason_code == 0, connack
    return connack


def refused(client: WireClient, data: bytes) -> Connack | None:
    """Send a CONNECT that must be refused; returns the CONNACK that came before the close, if there was one."""
    client.send(data)
    last = client.until_close()
    assert len(last) <= 1, last
    if not last:
        return None
    assert isinstance(last[0], Connack), last
    assert last[0].reason_code >= (REFUSED if client.version == 5 else 1), last
    return last[0]


def malformed(client: WireClient, data: bytes) -> None:
    """Send a malformed CONNECT: 3.1.1 closes without a CONNACK, 5.0 may send one that refuses [MQTT-3.1.4-1]."""
    connack = refused(client, data)
    assert connack is None or client.version == 5, connack
