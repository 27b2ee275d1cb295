"""Bridges over TLS and WebSocket."""

from typing import Any, cast

import pytest
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from tests.broker.conftest import Start
from tests.support.broker.bridged import SOON, Remote, Ring
from tests.support.brokers import Listener
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess
from tests.support.wire import connected


@pytest.fixture
def far(start: Start, certificates: Certificates) -> BrokerProcess:
    """A remote broker with a listener of each kind."""
    return start(
        (
            Listener(),
            Listener("tls", certificates),
            Listener("mutual", certificates, True),
            Listener("ws", websocket=True),
            Listener("wss", certificates, websocket=True),
        )
    )


def at(broker: BrokerProcess, scheme: str, listener: str, path: str = "", host: str = "127.0.0.1") -> str:
    """The address of a listener."""
    return f"{scheme}://{host}:{broker.address(listener).port}{path}"


def bridge(address: str, **tls: Any) -> dict[str, Any]:
    """A bridge to it, both ways."""
    own: dict[str, Any] = {"name": "far", "address": address, "topics": [{"filter": "#", "direction": "both"}]}
    return own | ({"tls": tls} if tls else {})


def told(broker: BrokerProcess, event: str, text: str) -> None:
    """Wait until the log says this."""
    broker.wait_for_output(lambda lines: any(event in line and text in line for line in lines), f"{event}: {text}")


def check_both_ways(near: BrokerProcess, far: BrokerProcess) -> None:
    """A message of any size comes through in either direction."""
    told(near, "bridge_connected", '"far"')
    with connected(near.address(), 5) as here, connected(far.address(), 5) as there:
        here.subscribe("from-far", qos=1)
        there.subscribe("from-near", qos=1)
        for size in (0, 100, 70_000, 900_000):
            for broker, name in ((near, "near"), (far, "far")):
                with connected(broker.address(), 5) as publisher:
                    publisher.publish(f"from-{name}", name[:1].encode() * size, 1)
            assert there.receive_message().payload == b"n" * size
            assert here.receive_message().payload == b"f" * size


@pytest.mark.parametrize(("scheme", "listener"), [("mqtts", "tls"), ("ws", "ws"), ("wss", "wss"), ("mqtt", "tcp")])
def test_each_transport(
    brokers: Ring, far: BrokerProcess, certificates: Certificates, scheme: str, listener: str
) -> None:
    """Messages go both ways over TCP, TLS and WebSocket."""
    tls = {"cafile": str(certificates.cafile)} if scheme in ("mqtts", "wss") else {}
    check_both_ways(brokers.start("a", bridge(at(far, scheme, listener), **tls)), far)


def test_a_client_certificate_is_shown(brokers: Ring, far: BrokerProcess, certificates: Certificates) -> None:
    """A remote broker that asks for a certificate gets the bridge's."""
    files = {"cafile": certificates.cafile, "certfile": certificates.client.certfile}
    tls = {name: str(file) for name, file in (files | {"keyfile": certificates.client.keyfile}).items()}
    check_both_ways(brokers.start("a", bridge(at(far, "mqtts", "mutual"), **tls)), far)


def test_the_certificate_of_the_remote_broker_is_verified(brokers: Ring, far: BrokerProcess) -> None:
    """One of an authority that is not known is refused, and nothing is sent; the log says why."""
    near = brokers.start("a", bridge(at(far, "mqtts", "tls")))
    told(near, "bridge_failed", "its certificate is not valid")
    assert "bridge_connected" not in near.stderr


def test_the_name_in_the_certificate_has_to_be_right(
    brokers: Ring, far: BrokerProcess, certificates: Certificates
) -> None:
    """A certificate of another host is refused; `server_name` says which name it has to have."""
    ca = str(certificates.cafile)
    wrong = bridge(at(far, "mqtts", "tls"), cafile=ca, server_name="elsewhere.example")
    near = brokers.start("a", wrong)
    told(near, "bridge_failed", "elsewhere.example")
    brokers.reload("a", bridge(at(far, "mqtts", "tls"), cafile=ca, server_name="localhost"))
    check_both_ways(near, far)


def test_verification_can_be_turned_off(brokers: Ring, far: BrokerProcess) -> None:
    """Whoever says `verify: false` gets an encrypted connection to whoever answers."""
    check_both_ways(brokers.start("a", bridge(at(far, "mqtts", "tls"), verify=False)), far)


def test_files_that_are_missing_are_named(brokers: Ring, far: BrokerProcess, certificates: Certificates) -> None:
    """A file that goes away is an attempt that fails with its name; the next one reads it again."""
    ca = certificates.cafile.parent / "moved.pem"
    ca.write_bytes(certificates.cafile.read_bytes())
    near = brokers.start("a", bridge(at(far, "mqtts", "tls"), cafile=str(ca)))
    told(near, "bridge_connected", '"far"')
    ca.rename(ca.with_suffix(".gone"))
    brokers.reload("a", bridge(at(far, "mqtts", "tls"), cafile=str(certificates.cafile)))
    check_both_ways(near, far)


def test_a_websocket_that_is_refused_is_told(brokers: Ring, far: BrokerProcess) -> None:
    """The log has the status that the server has answered."""
    near = brokers.start("a", bridge(at(far, "ws", "ws", "/wrong")))
    told(near, "bridge_failed", "404")


@pytest.mark.parametrize(
    ("protocol", "frame", "why"),
    [
        ("other", b"", "unsupported subprotocol: other"),
        ("mqtt", b"\x81\x01x", "a text frame"),
        ("mqtt", b"\x82\x81\0\0\0\0x", "incorrect masking"),
    ],
)
def test_a_websocket_that_is_none_of_mqtt_is_told(
    start: Start, remote: Remote, protocol: str, frame: bytes, why: str
) -> None:
    """The log says what is wrong with the server's handshake or frames, not only that the connection ended."""
    near = start(sections={"bridges": [bridge(f"ws://{remote.address}") | SOON]})
    server = ServerProtocol(subprotocols=[Subprotocol(protocol)], select_subprotocol=lambda *_: Subprotocol(protocol))
    connection = remote.silent()
    while not (events := server.events_received()):
        server.receive_data(connection.recv(65_536))
    server.send_response(server.accept(cast("Request", events[0])))
    connection.sendall(b"".join(server.data_to_send()) + frame)
    told(near, "bridge_failed", why)


def test_what_is_no_websocket_is_told(brokers: Ring, far: BrokerProcess) -> None:
    """A server that speaks something else is named, and tried again."""
    near = brokers.start("a", bridge(at(far, "ws", "tcp")))
    told(near, "bridge_failed", "ws://127.0.0.1")


def test_a_host_that_nobody_knows_is_told(brokers: Ring) -> None:
    """The log has the address."""
    near = brokers.start("a", bridge("mqtt://nobody.invalid:1883"))
    told(near, "bridge_failed", "nobody.invalid")
