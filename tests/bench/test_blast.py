"""The load generator: what it sends arrives, what it counts is correct, and its errors have a reason."""

import subprocess

import pytest

from tests.bench.generator import LoadError, Result, build, drive
from tests.support.process import Address, BrokerProcess, free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once

PAIR, FANOUT, FANIN = "pair --publishers 3", "fanout --subscribers 5", "fanin --publishers 5"
TOPICS = "topics --publishers 3 --subscribers 4 --topics 1801"
WILD = "wild --subscribers 9"
SHORT = ("--seconds", "0.2", "--warmup", "0.1")


def load(broker: BrokerProcess, options: str) -> Result:
    """Drive a load for a moment."""
    return drive(broker, [*options.split(), *SHORT])


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("mode", [PAIR, FANOUT, FANIN, TOPICS, WILD])
def test_everything_arrives_in_order(broker: BrokerProcess, mode: str, qos: int, version: int) -> None:
    """With a window that fits into the broker's queues, nothing is lost, duplicate or out of order (FC-6, FC-9)."""
    result = load(broker, f"--mode {mode} --qos {qos} --version {version} --window 10")
    assert result["received"][qos] > 0
    assert sum(result["received"]) == result["received"][qos]
    assert [result[count] for count in ("lost", "out_of_order", "refused", "foreign")] == [0, 0, 0, 0]
    assert result["latency"]["count"] == result["received"][qos]
    assert result["cpu_us_per_delivery"] > 0
    if qos:
        assert result["acked"][qos] > 0
        assert result[f"ack_qos{qos}"]["count"] == result["acked"][qos]


def test_mix_of_qos(broker: BrokerProcess) -> None:
    """A mix has the requested shares, message by message."""
    result = load(broker, "--mode pair --publishers 2 --mix 6:3:1 --window 20")
    total = sum(result["sent"])
    assert total > 100
    for sent, weight in zip(result["sent"], (6, 3, 1), strict=True):
        assert abs(sent - total * weight / 10) <= 10
    assert result["lost"] == 0


def test_rate(broker: BrokerProcess) -> None:
    """With a rate, so many messages are sent, whatever the broker does; other tests may delay the last ones."""
    result = load(broker, "--mode pair --publishers 4 --rate 500")
    assert 4 * 500 * 0.1 <= sum(result["sent"]) <= 4 * 500 * 0.4  # without a rate it would be many thousands
    assert result["skipped"] == 0


def test_readers_that_do_not_keep_up(broker: BrokerProcess) -> None:
    """Stalled and slow subscribers do not read more, and do not disturb those that are measured."""
    options = "--mode pair --publishers 2 --rate 1000 --stalled 2 --slow 2 --slow-rate 20000 --receive-buffer 4096"
    result = load(broker, options)
    assert result["lost"] == 0
    assert sum(result["received"]) > 100
    assert 0 < result["slow_bytes"] <= 2 * 20_000 * 0.2 * 1.5
    assert result["slow_received"] > 0
    assert result["cut_off"] == 0


def test_connections(broker: BrokerProcess) -> None:
    """Connections without messages are opened at once, counted and timed."""
    result = load(broker, "--mode connect --idle 200 --burst 200")
    assert result["connect"]["count"] == 200
    assert result["setup_s"] > 0
    assert result["cpu_us_per_connection"] > 0


@pytest.mark.parametrize("version", [4, 5])
def test_connect_and_disconnect(broker: BrokerProcess, version: int) -> None:
    """Cyclers connect and disconnect again and again, and nobody stays behind."""
    before = broker.open_files()
    result = load(broker, f"--mode connect --cyclers 5 --cycle connect --version {version}")
    assert result["cycles"] > 10
    assert result["cycle"]["count"] == result["cycles"]
    assert result["cpu_us_per_cycle"] > 0
    wait_until(lambda: broker.open_files() <= before, "the broker to have closed all connections")


@pytest.mark.parametrize("version", [4, 5])
def test_subscribe_and_unsubscribe_under_load(broker: BrokerProcess, version: int) -> None:
    """Cyclers subscribe and unsubscribe at a rate, and no message of the load is lost for it."""
    cycling = "--cyclers 4 --cycle subscribe --cycle-rate 200"
    result = load(broker, f"--mode pair --publishers 2 --rate 500 --version {version} {cycling}")
    assert 10 <= result["cycles"] <= 200 * 0.2 * 2
    assert result["lost"] == 0
    assert sum(result["received"]) > 100


@pytest.mark.parametrize("version", [4, 5])
def test_retained_messages_of_a_new_subscription(broker: BrokerProcess, version: int) -> None:
    """Each new subscription to # brings all retained messages, which count as deliveries."""
    cycling = "--cyclers 2 --cycle retained --retained 300"
    result = load(broker, f"--mode connect --version {version} {cycling}")
    assert result["cycles"] >= 1
    assert result["received"][0] >= 300
    assert result["latency"]["count"] == result["received"][0]
    assert result["cpu_us_per_delivery"] > 0


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_properties_and_aliases(broker: BrokerProcess, qos: int) -> None:
    """With properties and topic aliases everything arrives too."""
    result = load(broker, f"--mode pair --publishers 3 --qos {qos} --window 10 --version 5 --properties 1 --aliases 1")
    assert result["received"][qos] > 0
    assert [result[count] for count in ("lost", "out_of_order", "refused", "foreign")] == [0, 0, 0, 0]


def test_nobody_listens(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that cannot be reached is named in the error."""
    monkeypatch.setitem(broker.listeners, "tcp", Address("127.0.0.1", free_port()))
    with pytest.raises(LoadError, match="Connection refused"):
        load(broker, "--mode pair")


def test_not_a_broker(broker: BrokerProcess) -> None:
    """A process that has ended cannot be measured."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(LoadError, match="is gone"):
        load(broker, f"--mode pair --pid {ended.pid}")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--bogus 1", "there is no option --bogus"),
        ("--qos 3", "--qos is to be a number from 0 to 2"),
        ("--mode star", "--mode is to be pair, fanout, fanin, topics, wild or connect"),
        ("--mix 1:2", "--mix is to be three weights"),
        ("--publishers 0", "needs a publisher and a subscriber"),
        ("--window", "--window has no value"),
        ("--cycle twice", "--cycle is to be connect, subscribe or retained"),
        ("--properties 1", "need --version 5"),
        ("--mode topics --version 5 --aliases 1", "more topics than aliases"),
        ("--cyclers 1 --cycle retained", "needs --mode connect"),
        ("--pid 0", "--pid is to be process ids"),
    ],
)
def test_usage(broker: BrokerProcess, options: str, reason: str) -> None:
    """A mistake on the command line gives exit status 2 and the expected form."""
    result = subprocess.run([str(build()), *options.split()], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert reason in result.stderr
