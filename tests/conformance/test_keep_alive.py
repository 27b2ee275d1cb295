"""Keep Alive: a client that sends nothing for too long is disconnected (section 3.1.2.10)."""

import time

from protocol import properties as props
from protocol import reason_codes
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq
from tests.conformance.configured import Configured
from tests.conformance.delivery import unique
from tests.conformance.keep_alive import PATIENCE
from tests.conformance.sessions import let_pass
from tests.support.process import Address
from tests.support.wire import READ_BYTES, WireClient, connected


def silent(address: Address, version: int, keep_alive: int) -> WireClient:
    """A client that has connected and sends nothing more."""
    client = WireClient(address, version, timeout=PATIENCE)
    assert client.connect(unique("c"), keep_alive=keep_alive).reason_code == 0
    return client


def check_cut_off(client: WireClient) -> None:
    """The server closes; it may tell MQTT 5 clients why."""
    last = client.expect_close()
    if last is not None:
        assert client.version == 5
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.KEEP_ALIVE_TIMEOUT


def test_silent(address: Address, version: int) -> None:
    """A client that sends nothing for one and a half times its keep-alive is disconnected."""
    with silent(address, version, 1) as client:
        check_cut_off(client)


def closes_within(client: WireClient, seconds: float) -> bool:
    """Whether the server closes within this time, whatever it sends before."""
    client.socket.settimeout(seconds)
    try:
        return client.socket.recv(READ_BYTES) == b""
    except TimeoutError:
        return False


def test_not_silent(address: Address, version: int) -> None:
    """A client that sends any packet in time is not disconnected, while a silent one is."""
    with silent(address, version, 1) as quiet, silent(address, version, 1) as client:
        deadline = time.monotonic() + PATIENCE
        while not closes_within(quiet, 0.3):
            assert time.monotonic() < deadline, "still open"
            client.expect_nothing_more()
        client.expect_nothing_more()


def test_silent_for_less(address: Address, version: int) -> None:
    """A client that is silent for more than its keep-alive, but less than one and a half times, is not disconnected."""
    with silent(address, version, 3) as client:
        let_pass(3.4)
        client.expect_nothing_more()


def test_receiving_is_not_enough(address: Address, version: int) -> None:
    """What the server sends to a client does not count: only packets from the client do."""
    topic = unique("topic")
    with silent(address, version, 1) as client, connected(address, version) as publisher:
        client.subscribe(topic)
        deadline = time.monotonic() + client.timeout
        while not closes_within(client, 0.3):
            assert time.monotonic() < deadline, "still open"
            publisher.publish(topic, b"x")


def test_off(address: Address, version: int) -> None:
    """A client with keep-alive 0 is not disconnected for being silent."""
    with silent(address, version, 0) as client:
        with silent(address, version, 1) as other:
            check_cut_off(other)
        client.send(Pingreq())
        client.expect_nothing_more()


def test_servers_keep_alive(configured: Configured) -> None:
    """A Server Keep Alive in CONNACK replaces the client's."""
    address = configured(mqtt={"server_keep_alive": "1s"})
    with WireClient(address, 5) as client:
        connack = client.connect(unique("c"), keep_alive=600)
        assert (connack.properties or {})[props.SERVER_KEEP_ALIVE] == 1
        check_cut_off(client)


def test_no_servers_keep_alive(address: Address) -> None:
    """If CONNACK has no Server Keep Alive, the client's own applies."""
    with WireClient(address, 5, timeout=PATIENCE) as client:
        connack = client.connect(unique("c"), keep_alive=1)
        own = (connack.properties or {}).get(props.SERVER_KEEP_ALIVE, 1)
        assert own != 0
        if own == 1:
            check_cut_off(client)
