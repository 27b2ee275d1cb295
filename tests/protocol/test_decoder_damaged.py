"""Valid packets with random damage: only MQTTError is raised, and memory stays bounded.

SLUICE_MUTATIONS sets how many packets are damaged (default 20000).
"""

import os
import random
from typing import Final

import psutil

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.decoder import Decoder
from protocol.disconnect import Disconnect
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe

COUNT: Final = int(os.environ.get("SLUICE_MUTATIONS", "20000"))
SEED: Final = 20_240_229
MAXIMUM_PACKET_SIZE: Final = 1000
GROWTH_BYTES: Final = 8 * 1024 * 1024

WILL: Final = Will(b"will/topic", b"gone", 1, True)
PACKETS: Final[list[tuple[int, Packet]]] = [
    (4, Connect("client", True, 60, "user", b"password", WILL, version=4)),
    (5, Connect("client", False, 60, "user", b"password", WILL, {17: 100, 33: 10, 38: [("a", "b")]})),
    (4, Connack(True)),
    (5, Connack(False, 0x87, {31: "no", 38: [("a", "b")]})),
    (4, Publish(b"a/b/c", b"payload")),
    (4, Publish(b"a/b/c", b"payload", 2, True, packet_id=258, dup=True)),
    (5, Publish(b"a/b/c", b"payload", 0)),
    (5, Publish(b"a/b/c", b"payload", 1, False, {1: 1, 2: 60, 3: "t", 8: "r", 9: b"c", 35: 7}, 259)),
    (5, Publish(b"a", b"payload", 1, False, {11: [1, 200, 30_000], 38: [("k", "v"), ("k", "w")]}, 1)),
    (5, Publish(b"a", bytes(500), 1, packet_id=1)),
    (4, Puback(1)),
    (5, Puback(1, 0x10, {31: "nobody"})),
    (5, Pubrec(2, 0x97)),
    (4, Pubrel(3)),
    (5, Pubcomp(4, 0x92, {38: [("a", "b")]})),
    (4, Subscribe(5, [Subscription("a/+/b", 1), Subscription("#", 2)])),
    (5, Subscribe(5, [Subscription("$share/g/a/#", 1, False, True, 2), Subscription("c", 2, True)], {11: 9})),
    (4, Suback(5, [0, 1, 2, 0x80])),
    (5, Suback(5, [0, 0x8F, 0x87], {31: "some"})),
    (4, Unsubscribe(6, ["a/+/b", "#"])),
    (5, Unsubscribe(6, ["a/+/b", "#"], {38: [("a", "b")]})),
    (4, Unsuback(6, [])),
    (5, Unsuback(6, [0, 0x11])),
    (4, Pingreq()),
    (5, Pingresp()),
    (5, Disconnect(0x04, {17: 5, 31: "bye"})),
    (5, Auth(0x18, {21: "SCRAM", 22: b"data"})),
]


def damage(source: random.Random, data: bytes) -> bytes:
    """Change, insert, remove or repeat a few bytes."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 4)):
        kind = source.randrange(6)
        place = source.randrange(len(changed) + 1)
        if kind == 0 and place < len(changed):
            changed[place] ^= 1 << source.randrange(8)
        elif kind == 1 and place < len(changed):
            changed[place] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
        elif kind == 2:
            changed[place:place] = source.randbytes(source.randint(1, 5))
        elif kind == 3:
            del changed[place : place + source.randint(1, 5)]
        elif kind == 4:
            changed += changed[place:]
        elif changed:
            changed[min(1, len(changed) - 1)] = source.randrange(256)
    return bytes(changed)


def decode(source: random.Random, data: bytes, version: int) -> None:
    """Feed the bytes in up to three pieces, and check after each step what the decoder returns and keeps."""
    decoder = Decoder(MAXIMUM_PACKET_SIZE, version=version)
    cuts = sorted(source.randrange(len(data) + 1) for _ in range(source.randrange(3)))
    refused: MQTTError | None = None
    try:
        for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
            decoder.feed(data[start:stop])
            while (packet := decoder.next_packet()) is not None:
                packet.encode(decoder.version)  # what was accepted can be encoded
            assert decoder.buffered <= MAXIMUM_PACKET_SIZE
    except MQTTError as error:
        refused = error
    if refused is not None:
        assert refused.reason_code >= 0x80
        assert refused.message
        assert decoder.buffered == 0


def test_damaged_packets() -> None:
    """Only MQTTError is raised, what is accepted can be encoded, and memory does not grow."""
    source = random.Random(SEED)
    seeds = [(version, packet.encode(version)) for version, packet in PACKETS]
    process = psutil.Process()
    at_start = 0
    for number in range(COUNT):
        if number == min(COUNT // 2, 10_000):  # what is allocated once has been allocated by then
            at_start = process.memory_info().rss
        version, data = seeds[number % len(seeds)]
        decode(source, damage(source, data), 0 if data[0] >> 4 == 1 else version)
    growth = process.memory_info().rss - at_start
    print(f"{COUNT} damaged packets, resident memory {growth / 1024:+.0f} KiB")
    assert growth < GROWTH_BYTES
