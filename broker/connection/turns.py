"""Clients that wait for an answer about their CONNECT: meanwhile nothing is read from them."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker.auth.authenticators.turn import Turn
from broker.connection.peer import Peer
from broker.runtime.clock import monotonic_us
from broker.runtime.read_gate import AUTHENTICATING
from protocol.errors import MQTTError

if TYPE_CHECKING:
    import asyncio


def wait_for(connection: Peer, turn: Turn, then: Callable[[int], None], now: int) -> None:
    """Call `then` with the time when the turn has come, and read on; or refuse the client."""
    waiting = turn.waiting
    assert waiting is not None  # it is asked about
    connection.gate.pause(AUTHENTICATING, now)
    connection.turn = turn
    waiting.add_done_callback(partial(_go_on, connection, turn, then))


def _go_on(connection: Peer, turn: Turn, then: Callable[[int], None], _: "asyncio.Future[None]") -> None:
    connection.turn = None
    if connection.gate.closed:
        return
    try:
        if turn.refusal is not None:
            raise turn.refusal
        then(monotonic_us())
    except MQTTError as error:
        connection.fail(error)
        return
    if connection.session is not None or connection.authentication is not None:  # else it waits, or is refused later
        read_on(connection)


def read_on(connection: Peer) -> None:
    """Read what is behind CONNECT or AUTH, unless the client has to wait again."""
    gate = connection.gate
    if connection.turn is not None:
        return
    if gate.ended:  # the client has sent everything, and waits for the end
        gate.lift(AUTHENTICATING)
        connection.read_to_end()
        connection.close()
    else:
        gate.resume(AUTHENTICATING)
