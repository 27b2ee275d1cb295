"""A client at each quota at once (FC-31), while the messages of another one all arrive, in time and in order."""

import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import pytest

from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import encode_publish
from protocol.subscribe import Subscribe, Subscription
from tests.broker.quotas.conftest import RunQuotas
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.quotas import PASSWORDS, client, reached
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

QUOTA = {
    "users": ["ann"],
    "max_connections": 4,
    "max_kept_sessions": 1,
    "max_subscriptions": 5,
    "max_filter_levels": 3,
    "max_retained_messages": 10,
    "max_retained_bytes": "10KB",
    "producer_max_rate": 50,
    "producer_max_bytes": "50KB",
    "max_inflight": 2,
    "max_mqueue_len": 10,
}
MESSAGES = 300
MIB = 1024 * 1024


def enter(address: Address, client_id: str, version: int, clean_start: bool = True) -> tuple[WireClient, Connack]:
    """One more client of ann's."""
    one = WireClient(address, version)
    secret = PASSWORDS["ann"].encode()
    one.send(Connect(client_id, clean_start, 0, username="ann", password=secret, version=version))
    return one, one.expect(Connack)


def stay(address: Address, client_id: str, version: int) -> WireClient:
    """A client of ann's that tries until there is room for it."""
    while True:
        one, connack = enter(address, client_id, version)
        if connack.reason_code == 0:
            return one
        one.close()


def connecting(broker: BrokerProcess, over: threading.Event) -> None:
    """Connect more clients than the quota has, kept ones too."""
    number = 0
    with stay(broker.address(), "first", 4):
        while not over.is_set():
            number += 1
            one, _ = enter(broker.address(), f"more-{number}", 4, number % 2 == 0)
            one.close()


def subscribing(broker: BrokerProcess, over: threading.Event) -> None:
    """Subscribe again and again, too deep and too often."""
    number = 0
    with stay(broker.address(), "subscriber", 5) as one:
        while not over.is_set():
            number += 1
            one.send(Subscribe(1, [Subscription(f"s/{number}", 1), Subscription(f"a/b/c/d/{number}", 1)]))
            one.receive()


def publishing(retain: bool) -> Callable[[BrokerProcess, threading.Event], None]:
    """Publish as fast as the broker reads, to be retained or not."""

    def run(broker: BrokerProcess, over: threading.Event) -> None:
        number = 0
        while not over.is_set():
            with stay(broker.address(), f"publisher-{retain}", 5) as one, suppress(OSError):  # the sockets are full
                one.socket.settimeout(0.5)
                while not over.is_set():
                    number += 1
                    topic = b"r/%d" % number if retain else b"flood"
                    one.send(encode_publish(topic, bytes(500), 0, retain, False, 0, None, 5))

    return run


@pytest.mark.parametrize("version", [pytest.param(4, marks=pytest.mark.slow), 5])
def test_others_are_not_disturbed(run: RunQuotas, version: int) -> None:
    """FC-31: while ann is at each quota, all of ben's messages arrive in order, and memory stays bounded."""
    broker = run(QUOTA, session={"overflow_patience": 0})
    kept = client(broker, version, "kept", "ann", kept=True)
    with kept:
        kept.subscribe("flood", "ben")
    over = threading.Event()
    storms = [connecting, subscribing, publishing(True), publishing(False)]
    threads = [threading.Thread(target=each, args=(broker, over)) for each in storms]
    before = broker.rss()
    for thread in threads:
        thread.start()
    try:
        for key in filter(_is_told, QUOTA):
            wait_until(lambda key=key: reached(broker, key) > 0, f"ann has reached {key}", 30)  # type: ignore[misc]
        with connected(broker.address(), version) as reader, client(broker, version, "y", "ben") as ben:
            reader.subscribe("ben", qos=1)
            longest = 0.0
            for number in range(MESSAGES):
                begin = monotonic()
                assert ben.publish("ben", str(number).encode(), 1) == 0
                assert reader.receive_message().payload == str(number).encode()
                longest = max(longest, monotonic() - begin)
        assert longest < 5
    finally:
        over.set()
        for thread in threads:
            thread.join(20)
    assert broker.rss() - before < 30 * MIB
    assert len(events(broker, "quota_reached")) <= len(QUOTA)
    assert len(wait_for_event(broker, "mqueue_full")) == 1


def _is_told(key: str) -> bool:
    """Whether reaching it is an event of quotas; window and queue have their own (FC-1, FC-5), one rate is enough."""
    return key not in {"users", "max_inflight", "max_mqueue_len", "max_retained_bytes", "producer_max_bytes"}
