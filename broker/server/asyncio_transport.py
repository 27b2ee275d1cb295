"""A defect of asyncio's own transports, mended: with `writelines` they grew without bound if the peer read nothing.

CVE-2024-12254: from Python 3.12.0 to 3.12.8, and in 3.13.0 and 3.13.1, `writelines` does not pause the protocol. uvloop
has transports of its own.
"""

from asyncio import selector_events
from typing import Any, Final

PAUSING: Final = "_maybe_pause_protocol"


def mend() -> None:
    """Have `writelines` pause the protocol, where it does not."""
    transport: Any = vars(selector_events).get("_SelectorSocketTransport")
    if transport is None:
        return
    writelines = vars(transport).get("writelines")
    if writelines is None or PAUSING in writelines.__code__.co_names or not hasattr(transport, PAUSING):
        return  # it joins all and calls `write`, which pauses the protocol, or is mended already

    def mended(self: Any, list_of_data: Any) -> None:
        writelines(self, list_of_data)
        self._maybe_pause_protocol()

    transport.writelines = mended
