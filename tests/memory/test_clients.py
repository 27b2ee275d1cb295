"""What those fill who have a session: the tables of clients, each with its bound in bytes."""

from pathlib import Path
from typing import Any, Final

import pytest

from broker.auth.permissions import EVERYTHING, QOS_RETAIN, BoundRule, Permissions, Who
from broker.connection.aliases import ReceivedAliases
from broker.routing.router import Router
from broker.sessions import ENOUGH_ENDED
from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from session.aliases import Aliases
from tests.memory.flood import flood
from tests.memory.tables import MEBIBYTE, OF_CLIENTS
from tests.memory.traced import tracing
from tests.support.broker.local import LocalBroker
from tests.support.brokers import start_sluice
from tests.support.session.peer import Peer
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

LONG: Final = 60_000
"""Bytes of what is nearly as long as MQTT allows."""
LATER: Final[Properties] = {props.WILL_DELAY_INTERVAL: 1}
LONG_IDS: Final[dict[str, Any]] = {"max_clientid_len": 65_535}


def topic(number: int, size: int = LONG) -> bytes:
    """A topic of so many bytes, another one for each number."""
    return f"{number}/".encode().ljust(size, b"x")


def live(local: LocalBroker, name: str, again: bool) -> None:
    """A kept session with a will, subscriptions and what waits for it; a clean start ends it, unless it goes on."""
    number = name[:3].encode()
    client = local.client()
    kept: Properties = {props.SESSION_EXPIRY_INTERVAL: 3_600}
    will = Will(b"will", bytes(LONG), properties={props.WILL_DELAY_INTERVAL: 3_000})
    client.send(Connect(name, False, 100, will=will, properties=kept, version=5))
    if not again:
        client.send(Subscribe(1, [Subscription(topic(int(number)).decode(), 1), Subscription("own", 1)]))
        client.send(Publish(b"own", bytes(LONG), 1, packet_id=1), Publish(b"nobody", bytes(LONG), 2, packet_id=2))
    client.drop()
    if not again:
        local.client().send(Connect(name, True, 100, version=5), Disconnect())


@pytest.mark.parametrize("again", [False, True])
def test_an_ended_session(again: bool) -> None:
    """What a session held is given back when it ends, and its will when its client is back: not when timers come."""
    count = 50
    with LocalBroker(mqtt=LONG_IDS) as local:
        live(local, "100".ljust(LONG, "x"), again)
        with tracing() as traced:
            for number in range(count):
                live(local, (f"{101 + number}" if not again else "100").ljust(LONG, "x"), again)
            assert traced.bytes() < count * OF_CLIENTS["an ended session"]


def test_rows_of_ended_sessions(tmp_path: Path) -> None:
    """Sessions with long ids that end at once take little memory for their metrics, long before the next export."""
    sections = {"mqtt": LONG_IDS, "metrics": {"directory": str(tmp_path / "metrics")}}
    with start_sluice(tmp_path, sections=sections) as broker:
        address = broker.address()
        flood(address, "sessions", LONG, 8, lambda made: made > 200)
        before = broker.rss()
        flood(address, "sessions", LONG, 8, lambda made: made > 2_000)  # 115 MB of ids, of which an export copies more
        assert broker.rss() - before < 3 * OF_CLIENTS["rows of ended sessions"]


def test_rows_of_ended_sessions_are_exported_early() -> None:
    """The export is told when a quarter of the bytes is reached, and the rows themselves do not take more than that."""
    told = []
    with LocalBroker(mqtt=LONG_IDS) as local, tracing() as traced:
        sessions = local.broker.sessions
        sessions.keep_ended = True
        sessions.on_many_ended = lambda: told.append(sessions.ended_bytes)
        for number in range(1_000):
            client = local.client()
            client.send(Connect(f"{number}".ljust(LONG, "x"), version=5), Disconnect())
            if told:
                break
        assert ENOUGH_ENDED <= told[0] < ENOUGH_ENDED + MEBIBYTE
        assert traced.bytes() < told[0]


def test_subscriptions_and_wills(tmp_path: Path) -> None:
    """Beyond the watermark large wills are refused, and long or many subscriptions, but not a few short ones."""
    with start_sluice(tmp_path) as calm:
        most = calm.rss() + 60 * MEBIBYTE
    sections = {"memory_watermark": most}
    with start_sluice(tmp_path, sections=sections) as broker, connected(broker.address(), 5) as client:
        codes: list[int] = []
        for number in range(3_000):
            client.send(Subscribe(1, [Subscription(topic(number).decode(), 1)]))
            codes += client.expect(Suback).reason_codes
        assert codes[0] == 1
        assert codes[-1] == reason_codes.QUOTA_EXCEEDED
        assert codes.index(reason_codes.QUOTA_EXCEEDED) < 2_000
        assert broker.rss() < most + 60 * MEBIBYTE  # what comes between two looks is let in; all of it is 300 MiB
        client.send(Subscribe(1, [Subscription(topic(0).decode(), 0)]))  # it replaces one
        assert client.expect(Suback).reason_codes == [0]
        with connected(broker.address(), 5) as other:
            other.send(Subscribe(1, [Subscription(f"short/{number}", 0) for number in range(17)]))
            assert other.expect(Suback).reason_codes == [0] * 16 + [reason_codes.QUOTA_EXCEEDED]
        for size, code in ((200, 0), (LONG, reason_codes.QUOTA_EXCEEDED)):
            with WireClient(broker.address(), 5) as other:
                other.send(Connect(f"will-{size}", will=Will(b"w", bytes(size), properties=LATER), version=5))
                assert other.expect(Connack).reason_code == code


def test_decisions_of_rules() -> None:
    """A client that publishes on many topics, or on long ones, has few decisions kept for it."""
    rule = BoundRule(True, QOS_RETAIN, 0, [EVERYTHING])
    for size, count in ((20, 10_000), (1_000, 2_000), (LONG, 200)):
        permissions = Permissions(Who("ann", frozenset(), "c", "", ""), [rule], False)
        with tracing() as traced:
            assert all(permissions.may_publish(topic(number, size), 1, False) for number in range(count))
            assert traced.bytes() < OF_CLIENTS["decisions of rules"]


def test_topic_aliases_from_a_client() -> None:
    """A client whose topic aliases are for topics of more bytes is closed; one that sets them anew is not."""
    aliases = ReceivedAliases()
    with tracing() as traced:
        for number in range(100):
            aliases.set(1 + number % 2, topic(number))
        assert traced.bytes() < OF_CLIENTS["topic aliases from a client"]
    with LocalBroker() as local:
        client = local.client()
        client.connect("c")
        for number in (0, 1, 2, 3):
            client.send(Publish(topic(number), b"", properties={props.TOPIC_ALIAS: 1 + number % 2}))
        assert not client.gone
        client.send(Publish(topic(0), b"", properties={props.TOPIC_ALIAS: 3}))
        assert client.expect(Disconnect).reason_code == reason_codes.QUOTA_EXCEEDED


def test_topic_aliases_to_a_client() -> None:
    """What is counted for the most used topics of a client is bounded, however long and many they are."""
    for size in (1_000, LONG):
        aliases = Aliases(32)
        with tracing() as traced:
            for number in range(1_023):
                if aliases.known(topic(number, size)) == 0:
                    aliases.assign(topic(number, size))
            assert traced.bytes() < OF_CLIENTS["topic aliases to a client"]


def test_cached_topics() -> None:
    """The receivers of long topics are cached as far as their bytes allow, also if all of them are found anew."""
    router = Router(128, cached_one_in=1)
    outbound = Peer().session.outbound
    router.subscribe(outbound, Subscription("#", 0))
    with tracing() as traced:
        for number in range(4_500):
            router.receivers(topic(number))
            if number % 1_500 == 0:
                router.forget_topics()
        assert traced.bytes() < OF_CLIENTS["cached topics"]
