"""How many CONNECTs per second one IP address may send: more are refused, and other addresses are not affected."""

import socket
from contextlib import closing

import pytest

from broker.connection.connection_rate import ConnectionRate
from broker.runtime.network import network
from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.properties import Properties
from tests.broker.conftest import Start
from tests.support.broker.local import LocalBroker
from tests.support.process import Address
from tests.support.wire import WireClient

SECOND = 1_000_000


def come(address: Address, version: int) -> tuple[int, bool]:
    """Connect and leave; returns the CONNACK's code, and whether the broker closed."""
    with WireClient(address, version) as client:
        code = client.connect().reason_code
        return code, code != 0 and client.expect_close() is None


@pytest.mark.parametrize(("version", "code"), [(4, 3), (5, reason_codes.CONNECTION_RATE_EXCEEDED)])
def test_refused(start: Start, version: int, code: int) -> None:
    """Past `max_connection_rate`, CONNECT is answered with 0x9F, in 3.1.1 with 3, and the connection is closed."""
    with start(sections={"mqtt": {"max_connection_rate": 1}}) as broker:
        assert come(broker.address(), version) == (0, False)
        refused = [come(broker.address(), version) for _ in range(5)]
        assert (code, True) in refused
        assert {*refused} <= {(code, True), (0, False)}  # a slow machine may take a second for these


def test_addresses_do_not_share(start: Start) -> None:
    """Another address, even of the same machine, has its own rate."""
    with start(sections={"mqtt": {"max_connection_rate": 1}}) as broker:
        codes = []
        for number in range(2, 12):
            address = broker.address()
            with closing(socket.create_connection(address, 5, source_address=(f"127.0.0.{number}", 0))) as raw:
                raw.sendall(Connect(f"c{number}").encode(4))
                codes.append(raw.recv(4))
        assert codes == [Connack().encode(4)] * 10


def test_over_ipv6(start: Start) -> None:
    """IPv6 clients are limited too."""
    listeners = [{"name": "tcp", "bind": "[::1]:0"}]
    with start(sections={"mqtt": {"max_connection_rate": 1}, "listeners": listeners}) as broker:
        codes = [come(broker.address(), 5)[0] for _ in range(6)]
        assert codes[0] == 0
        assert reason_codes.CONNECTION_RATE_EXCEEDED in codes


@pytest.mark.parametrize("size", [1, 4, 5])
def test_small_packets(start: Start, size: int) -> None:
    """[MQTT-3.1.2-24]: a client that accepts no packet of five bytes is closed without the refusal."""
    small: Properties = {props.MAXIMUM_PACKET_SIZE: size}
    with start(sections={"mqtt": {"max_connection_rate": 1}}) as broker:
        answers = set()
        for number in range(6):
            with WireClient(broker.address(), 5) as client:
                client.send(Connect(f"c{number}", properties=small, version=5))
                answer = client.expect_close()
                answers.add(None if answer is None else len(answer.encode(5)))
        assert answers == ({None} if size < 5 else {5})


def test_no_limit() -> None:
    """By default there is no limit."""
    with LocalBroker() as local:
        assert [local.client().connect(f"c{number}").reason_code for number in range(100)] == [0] * 100


def test_refused_connects_count(start: Start) -> None:
    """A CONNECT that is refused for another reason counts too."""
    with start(sections={"mqtt": {"max_connection_rate": 1, "max_connections": 1}}) as broker:
        with WireClient(broker.address(), 5) as first:
            first.connect()
            codes = {come(broker.address(), 5)[0] for _ in range(8)}
        assert reason_codes.CONNECTION_RATE_EXCEEDED in codes
        assert codes <= {reason_codes.CONNECTION_RATE_EXCEEDED, reason_codes.QUOTA_EXCEEDED}


# -- the bucket


@pytest.mark.parametrize("rate", [1, 3, 7, 1000])
def test_bucket(rate: int) -> None:
    """A burst of `rate` is accepted, then `rate` in each second; after a second of silence a burst again."""
    buckets, now = ConnectionRate(rate), 12_345_678
    assert [buckets.admit("10.0.0.1", now) for _ in range(rate + 2)] == [True] * rate + [False] * 2
    step = SECOND // (10 * rate)
    asked = range(now, now + 5 * SECOND, step)
    assert sum(buckets.admit("10.0.0.1", at) for at in asked) in (5 * rate, 5 * rate - 1)
    now += 7 * SECOND
    assert [buckets.admit("10.0.0.1", now) for _ in range(rate + 1)] == [True] * rate + [False]


def test_a_bucket_lasts_until_it_is_full() -> None:
    """A bucket is kept until it is full, whenever it was begun."""
    for begun in range(0, 2 * SECOND, SECOND // 10):
        buckets = ConnectionRate(2)
        assert buckets.admit("192.0.2.1", 10 * SECOND)
        now = 10 * SECOND + begun
        assert [buckets.admit("10.0.0.1", now) for _ in range(3)] == [True, True, False]
        assert [buckets.admit("10.0.0.1", now + SECOND * 4 // 10)] == [False]
        assert [buckets.admit("10.0.0.1", now + SECOND * 6 // 10) for _ in range(2)] == [True, False]


def test_memory_is_bounded() -> None:
    """Full buckets are forgotten, however many addresses there were."""
    buckets = ConnectionRate(10)
    for number in range(100_000):
        buckets.admit(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", number * 100)  # 10,000 a second
    assert len(buckets) <= 20_000
    buckets.admit("10.0.0.1", 60 * SECOND)
    assert len(buckets) == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%lo", "fe80::1", True),
        ("", "somewhere", True),
    ],
)
def test_networks(one: str, other: str, same: bool) -> None:
    """IPv4 addresses have a bucket each, also in IPv6 notation; IPv6 addresses of a /64 share one."""
    assert (network(one) == network(other)) is same
