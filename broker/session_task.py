"""The session task: one per connection, asleep until there is something to deliver."""

import asyncio
from typing import TYPE_CHECKING

from broker.clock import monotonic_us
from session.outbound import Outbound

if TYPE_CHECKING:
    from broker.connection import Connection


async def run_session(connection: "Connection", outbound: Outbound) -> None:
    """Run passes while there is work, yielding to the loop between them so that no session hogs it, until cancelled.

    It never waits for a slow socket: a congested send path turns into queueing (FC-3).
    """
    loop = asyncio.get_running_loop()
    try:
        while True:
            more = outbound.run_pass(monotonic_us())
            connection.flush()
            if more:
                await asyncio.sleep(0)
            elif not outbound.mailbox:
                waiter = loop.create_future()
                connection.waiter = waiter
                outbound.idle = True
                await waiter
                outbound.idle = False
    except Exception as error:
        connection.abort()  # or the mailbox would grow with nobody to take it up
        loop.call_exception_handler({"message": "a session task has failed", "exception": error})
