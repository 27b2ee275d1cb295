"""Python's garbage collector: objects that have survived two searches are not searched again.

Reference counting frees everything of a client; only cycles need the collector. A search of all objects takes 6 us for
each session, in one turn of the event loop, and finds nothing. So whatever lives long must not be in a cycle when it is
released.
"""

import asyncio
import gc
from typing import Final

from broker.server.memory import trim

YOUNG: Final = 700
"""New objects, less freed ones, after which the new ones are searched."""
MIDDLE: Final = 4
"""Such searches after which the survivors are searched once more. Python counts new objects less freed ones: what
replaces very many objects has to ask for searches meanwhile (broker/clients.py)."""
NEVER: Final = 1_000_000_000


def spare_what_is_old(loop: asyncio.AbstractEventLoop) -> None:
    """Search young objects only from now on, and of them none that is there now.

    Transports of asyncio's own event loop are cycles, so with that loop everything is searched as usual. Free memory is
    returned: reading the journal needed more than what it left.
    """
    trim()
    gc.freeze()
    if not isinstance(loop, asyncio.BaseEventLoop):
        gc.set_threshold(YOUNG, MIDDLE, NEVER)
