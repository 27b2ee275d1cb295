"""FC-27: what expires, and when, if the wall clock is set while the broker runs, or is wrong when it starts."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.storage.compaction import Compaction
from broker.storage.times import Times
from protocol import properties as props
from protocol.connect import Will
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.restarting import KEPT, come_back, leave, payloads
from tests.support.broker.stored import broker_on, on_disk, say, waiting
from tests.support.broker.stored import connected as local_client
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

WRONG = """
from broker.runtime import clock
clock.time_ns = lambda right=clock.time_ns: right() + int(open({path!r}).read()) * 1_000_000_000
"""
"""Makes the wall clock wrong by the seconds in a file."""

HOURS = 7200

Wrong = Callable[..., BrokerProcess]


def set_clock(clock: Path, seconds: int) -> None:
    """Set how wrong the clock is; a broker that reads the file meanwhile finds it whole."""
    new = clock.with_name("clock.new")
    new.write_text(str(seconds))
    new.replace(clock)


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """How wrong the wall clock is, in seconds."""
    path = tmp_path / "clock"
    set_clock(path, 0)
    return path


@pytest.fixture
def run(start: Start, tmp_path: Path, clock: Path) -> Wrong:
    """Start a broker with that clock on a journal; if one runs already, it gets a signal before."""
    running: list[BrokerProcess] = []

    def run_again(how: signal.Signals = signal.SIGTERM, **persistence: object) -> BrokerProcess:
        while running:
            running[-1].ask_to_end(how)
            running.pop().stop()
        section = {"directory": str(tmp_path / "journal"), **persistence}
        running.append(start(sections={"persistence": section}, prepare=WRONG.format(path=str(clock))))
        return running[-1]

    return run_again


def publish(broker: BrokerProcess, *payloads: bytes, expiry: int, retain: bool = False) -> None:
    """Publish what expires after so many seconds; it is acknowledged."""
    with connected(broker.address(), 5) as publisher:
        for payload in payloads:
            properties: props.Properties = {props.MESSAGE_EXPIRY_INTERVAL: expiry}
            publisher.publish("t", payload, 1, retain=retain, properties=properties)


@pytest.mark.parametrize("step", [HOURS, -HOURS])
def test_set_while_it_runs(run: Wrong, clock: Path, step: int) -> None:
    """What was written before the clock is set, and after it, is there after a restart."""
    broker = run()
    leave(broker, "away", "t")
    publish(broker, b"before", expiry=3600)
    set_clock(clock, step)
    publish(broker, b"after", expiry=3600)
    with come_back(run(), "away") as client:
        came = [client.expect(Publish), client.expect(Publish)]
    assert [each.payload for each in came] == [b"before", b"after"]
    left = [props.integer(each.properties, props.MESSAGE_EXPIRY_INTERVAL) for each in came]
    assert all(3500 < each <= 3600 for each in left)


def test_set_just_before_the_end(run: Wrong, clock: Path) -> None:
    """A clock that is set and nothing that is written after it: a clean stop writes that it has been set."""
    broker = run()
    leave(broker, "away", "t")
    publish(broker, b"before", expiry=3600)
    set_clock(clock, HOURS)
    with come_back(run(), "away") as client:
        assert payloads(client, 1) == [b"before"]


@pytest.mark.parametrize("step", [HOURS, -HOURS])
def test_set_just_before_a_crash(run: Wrong, clock: Path, step: int) -> None:
    """The first message after the clock is set has its time by the new one, however soon the crash is."""
    broker = run()
    leave(broker, "away", "t")
    publish(broker, b"before", expiry=4000)  # so that nothing waits to be written
    with connected(broker.address(), 5) as publisher:
        set_clock(clock, step)
        publisher.publish("t", b"long", 1, properties={props.MESSAGE_EXPIRY_INTERVAL: 3600})
        publisher.publish("t", b"short", 1, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
        published = time.monotonic()
        broker.ask_to_end(signal.SIGKILL)
    broker.stop()
    wait_until(lambda: time.monotonic() > published + 1.1, "a second has passed")
    with come_back(run(signal.SIGKILL), "away") as client:
        assert payloads(client, 2) == [b"before", b"long"]


def test_on_disk_only(run: Wrong, clock: Path) -> None:
    """FC-30: what is on disk only does not expire when the clock is set, as what is in memory does not."""
    broker = run(memory="1B")
    leave(broker, "away", "t")
    publish(broker, *(b"%d" % number + bytes(2000) for number in range(30)), expiry=3600)
    set_clock(clock, HOURS)
    publish(broker, b"last", expiry=3600)
    with come_back(broker, "away") as client:
        assert len(payloads(client, 31)) == 31


def test_sessions_when_the_clock_is_set(run: Wrong, clock: Path) -> None:
    """A session does not expire because the clock has been set, also over two restarts."""
    broker = run()
    leave(broker, "away", "t")
    set_clock(clock, HOURS)
    run()
    set_clock(clock, 2 * HOURS)
    come_back(run(), "away").close()


def test_behind_at_the_start(run: Wrong, clock: Path) -> None:
    """A broker that starts with a clock behind keeps sessions, wills and messages for their interval, not longer."""
    broker = run()
    leave(broker, "away", "w", "t")
    publish(broker, b"short", expiry=1)
    with WireClient(broker.address(), 5) as client:
        will = Will(b"w", b"will", 1, False, {props.WILL_DELAY_INTERVAL: 1})
        client.connect("gone", clean_start=False, properties={props.SESSION_EXPIRY_INTERVAL: 1000}, will=will)
    with WireClient(broker.address(), 5) as client:
        client.connect("short", clean_start=False, properties={props.SESSION_EXPIRY_INTERVAL: 1})
        client.disconnect()
    leave(broker, "other", "other")  # its SUBACK has waited for the disk, and with it all that was before
    broker.ask_to_end(signal.SIGKILL)
    broker.stop()
    set_clock(clock, -HOURS)
    broker = run()
    started = time.monotonic()
    wait_until(lambda: time.monotonic() > started + 1.2, "all intervals are over")
    with come_back(broker, "away") as client:
        assert client.receive_message().payload == b"will"
        client.expect_nothing_more()
    with WireClient(broker.address(), 5) as client:
        assert not client.connect("short", clean_start=False, properties=KEPT).session_present


def test_compaction(tmp_path: Path) -> None:
    """What compaction writes again after the clock was set has its time by the clock as it is set then."""
    now = 0
    with broker_on(tmp_path) as (local, storage):
        storage.journal.times = Times(lambda: now)
        away = local_client(local, storage, "away", "t")
        away.drop()
        publisher = local_client(local, storage, "publisher")
        properties: props.Properties = {props.MESSAGE_EXPIRY_INTERVAL: 3600}
        say(local, storage, publisher, Publish(b"t", b"x", 1, False, properties, packet_id=1))
        ((before, _),) = waiting(storage, storage.read().sessions[1]).values()
        now = 5_000_000
        local.run(storage.journal.look_at_clock)
        on_disk(local, storage)
        local.complete(Compaction(storage).remove_oldest())
        saved = storage.read()
        assert saved.steps == []
        ((after, _),) = waiting(storage, saved.sessions[1]).values()
        assert after == before._replace(expires_at=before.expires_at + now)


def test_times_before_and_after_it_was_set() -> None:
    """A time is by the clock now when all that the clock was set by behind it is added."""
    times = Times(lambda: 0)
    times.note(3, 100, 5)
    times.note(7, 50, -2)
    places = [(1, 500), (3, 99), (3, 113), (7, 12), (7, 63), (8, 12)]
    assert [times.by_the_clock_now(1000, *place) for place in places] == [1003, 1003, 998, 998, 1000, 1000]


def test_it_drifts() -> None:
    """Only a step counts as set: what a busy machine makes of two readings does not."""
    now = 0
    times = Times(lambda: now)
    now = 99_000
    assert times.take_step() == 0
    now = 3_000_000
    assert (times.take_step(), times.take_step(), times.offset) == (3_000_000, 0, 3_000_000)
