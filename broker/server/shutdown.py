"""Closes connections when the server stops, in an order in which wills still reach connected subscribers."""

from typing import TYPE_CHECKING, Final

from broker.runtime.clock import SECOND, monotonic_us
from config.cluster import CELL
from protocol import reason_codes

if TYPE_CHECKING:
    from broker.addresses.policy import Addresses
    from broker.clients import Client, Clients
    from broker.connection.capabilities import Capabilities
    from broker.connection.connections import Connections
    from broker.connection.peer import Peer
    from broker.runtime.scheduler import RunQueue

WILLS_TIMEOUT: Final = 2 * SECOND
"""Microseconds for publishing wills. If all clients subscribe to all wills, the number of deliveries is the square of
the number of clients."""
DELIVERIES_TIMEOUT: Final = 6 * SECOND
"""Microseconds after which sessions make no more passes: overlapping subscriptions can multiply the deliveries."""


def disconnect_all(
    connections: "Connections",
    clients: "Clients",
    addresses: "Addresses",
    capabilities: "Capabilities",
    run_queue: "RunQueue",
    now: int,
) -> int:
    """Close the connections of all clients, and publish all wills; returns how many wills were lost.

    Links to other cells stay: what is published now has to cross, too.

    Clients of MQTT 5 are told by 0x8B, or by 0x9C or 0x9D where to go, if `mqtt.redirect_to` names another server.
    Packets that have been received and wait, because reading is paused, are handled before.
    A will is published when its client's connection is closed [MQTT-3.1.2-8], so connections with a will are closed
    first. Delayed wills are published too, at the latest when the session ends (MQTT 5, 3.1.3.2.2), unless the journal
    keeps the session, and the will with it (FC-27).
    """
    until = now + WILLS_TIMEOUT
    addresses.stopping = True
    lost = 0
    everyone = [connection for connection in connections.open if connection.listener != CELL]
    for connection in everyone:
        if (connection.paced or connection.gate.reasons) and monotonic_us() < until:
            connection.read_to_end()  # what waits has come before: a DISCONNECT cancels the will [MQTT-3.14.4-3]
    for connection in everyone:
        if connection.will is None:
            continue
        if monotonic_us() < until:
            _close(connection, capabilities, run_queue, now, now + DELIVERIES_TIMEOUT)
            continue
        connection.will = None
        lost += not _leaves_will(connection.client)
    for client in clients.known():
        if client.will is None or client.kept is not None:
            continue
        if monotonic_us() < until:
            client.will.due(now)
        else:
            client.will = None
            lost += 1
    for connection in everyone:
        _close(connection, capabilities, run_queue, now, now + DELIVERIES_TIMEOUT)
    return lost


def _leaves_will(client: "Client | None") -> bool:
    """Whether the journal has a client's will: then it stays there, and the next start publishes it."""
    kept = None if client is None else client.kept or client.kept_will
    if kept is not None:
        kept.stop()
    return kept is not None


def _close(connection: "Peer", capabilities: "Capabilities", run_queue: "RunQueue", now: int, until: int) -> None:
    """Run passes until the session's mailbox is empty, or end the session at `until`; then close the connection."""
    session = connection.session
    if session is not None:
        waiting = session.gauges().mailbox_len
        while waiting:
            if monotonic_us() >= until:
                if connection.client is None or connection.client.kept is None:
                    session.end(now)
                break  # what waits for a kept session is stored when it is detached
            run_queue.run(connection, now)
            left = session.gauges().mailbox_len
            if left >= waiting:
                break  # the pass has failed and aborted the connection
            waiting = left
    elsewhere = capabilities.server_reference
    code = capabilities.redirection if elsewhere else reason_codes.SERVER_SHUTTING_DOWN
    connection.close(code, "the server is stopping", server_reference=elsewhere)
