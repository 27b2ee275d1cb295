"""What clients are told when the server stops, and in which order: nobody is to miss a will that it could still get."""

from typing import TYPE_CHECKING, Final

from broker.runtime.clock import monotonic_us
from protocol import reason_codes

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection.connection import Connection

WILLS_TIMEOUT: Final = 2_000_000
"""Microseconds in which wills are published. Where all clients are subscribed to all of them, they make as many
deliveries as the square of the clients."""
DELIVERIES_TIMEOUT: Final = 6_000_000
"""Microseconds after which sessions take up no more of what waits for them: one can have asked for any multiple of what
is published."""


def take_leave(broker: "Broker", now: int) -> int:
    """Close every connection, MQTT 5 clients with 0x8B, and publish all wills; returns how many there was no time for.

    A will is published when its client's connection is closed [MQTT-3.1.2-8], so those who have one are the first to be
    closed. A will that waits for its delay is published too: no session outlives this process, and the end of the
    session does not let a will wait longer (MQTT 5, 3.1.3.2.2).
    """
    until = now + WILLS_TIMEOUT
    broker.addresses.stopping = True
    lost = 0
    connections = list(broker.connections)
    for connection in connections:
        if connection.will is None:
            continue
        if monotonic_us() < until:
            _close(connection, now, now + DELIVERIES_TIMEOUT)
        else:
            connection.will = None
            lost += 1
    for client in list(broker.clients.values()):
        if client.will is None:
            continue
        if monotonic_us() < until:
            client.will.due(now)
        else:
            client.will = None
            lost += 1
    for connection in connections:
        _close(connection, now, now + DELIVERIES_TIMEOUT)
    return lost


def _close(connection: "Connection", now: int, until: int) -> None:
    """Close a connection once its session has taken up what has been handed to it, or what there is time for."""
    task = connection.task
    if task is not None:
        outbound = task.outbound
        waiting = outbound.mailbox_len()
        while waiting:
            if monotonic_us() >= until:
                outbound.end(now)
                break
            task.step(now)
            left = outbound.mailbox_len()
            if left >= waiting:
                break  # the pass has failed and cut the connection off
            waiting = left
    connection.close(reason_codes.SERVER_SHUTTING_DOWN, "the server is stopping")
