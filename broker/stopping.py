"""What clients are told when the server stops, and in which order: nobody is to miss a will that it could still get."""

from typing import TYPE_CHECKING

from protocol import reason_codes

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import Connection


def take_leave(broker: "Broker", now: int) -> None:
    """Close every connection, MQTT 5 clients with 0x8B, and publish all wills.

    A will is published when its client's connection is closed [MQTT-3.1.2-8], so those who have one are the first to be
    closed. A will that waits for its delay is published too: no session outlives this process, and the end of the
    session does not let a will wait longer (section 3.1.3.2.2).
    """
    connections = list(broker.connections)
    for connection in connections:
        if connection.will is not None:
            _close(connection, now)
    for client in list(broker.clients.values()):
        if client.will is not None:
            client.will.due(now)
    for connection in connections:
        _close(connection, now)


def _close(connection: "Connection", now: int) -> None:
    """Close a connection once its session has taken up what has been handed to it."""
    task = connection.task
    if task is not None:
        outbound = task.outbound
        waiting = outbound.mailbox_len()
        while waiting:
            task.step(now)
            left = outbound.mailbox_len()
            if left >= waiting:
                break  # the pass has failed and cut the connection off
            waiting = left
    connection.close(reason_codes.SERVER_SHUTTING_DOWN, "the server is stopping")
