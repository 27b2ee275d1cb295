"""Tells systemd when the broker is ready, when it stops, and that its event loop turns (sd_notify(3))."""

import os
import socket
from collections.abc import MutableMapping
from typing import Final

_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notify:
    """The socket of the service manager, if there is one."""

    def __init__(self, environ: MutableMapping[str, str] | None = None) -> None:
        """The variables are removed: processes that this one starts must not speak for it."""
        found = os.environ if environ is None else environ
        address, period, pid = (found.pop(name, "") for name in _VARIABLES)
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        for_us = not pid or pid == str(os.getpid())
        self._every = int(period) // 3 if for_us and period.isascii() and period.isdigit() else 0  # microseconds
        self._due = 0

    def ready(self) -> None:
        """Clients may connect."""
        self._send("READY=1")

    def stopping(self) -> None:
        """The broker stops."""
        self._send("STOPPING=1")

    def look(self, now: int) -> None:
        """Report three times in each WatchdogSec= that the loop turns; `now` in microseconds."""
        if self._every and now >= self._due:
            self._due = now + self._every
            self._send("WATCHDOG=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            try:
                sock.sendto(state.encode(), self._address)
            except OSError:
                pass  # nobody listens any more, or is behind: the next one counts as well
