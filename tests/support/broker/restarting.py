"""Clients of a broker that is restarted on its journal (FC-27)."""

from collections.abc import Callable

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}

Restart = Callable[..., BrokerProcess]
"""Start a broker on a journal; if one runs already, it gets a signal before, SIGKILL unless another one is given."""


def come_back(broker: BrokerProcess, client_id: str, version: int = 5) -> WireClient:
    """A client that connects to the session that it has."""
    client = WireClient(broker.address(), version)
    kept = KEPT if version == 5 else None
    assert client.connect(client_id, clean_start=False, properties=kept).session_present
    return client


def leave(broker: BrokerProcess, client_id: str, *filters: str, qos: int = 2, version: int = 5) -> None:
    """Make a kept session with subscriptions, and leave it."""
    with WireClient(broker.address(), version) as client:
        client.connect(client_id, clean_start=False, properties=KEPT if version == 5 else None)
        client.subscribe(*filters, qos=qos)
        client.disconnect()


def payloads(client: WireClient, count: int) -> list[bytes]:
    """What comes next, so many messages; all are acknowledged, to the end of the exchange."""
    came: list[bytes] = []
    open_exchanges = 0
    while len(came) < count or open_exchanges:
        packet = client.receive()
        if isinstance(packet, Publish):
            came.append(packet.payload)
            if packet.qos == 1:
                client.send(Puback(packet.packet_id))
            elif packet.qos == 2:
                open_exchanges += 1
                client.send(Pubrec(packet.packet_id))
        elif isinstance(packet, Pubrel):
            open_exchanges -= 1
            client.send(Pubcomp(packet.packet_id))
    client.expect_nothing_more()
    return came
