"""The listeners of a server: opened when it starts, and opened, changed and closed by a reload."""

import asyncio
import socket
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.auth.watched_file import WatchedFile
from broker.broker import Broker
from broker.runtime.os_errors import text_of
from broker.server.activation import passed_on, sockets_named
from broker.server.certificate_dates import Shown
from broker.server.handover import Opened
from broker.server.listener_plan import ListenerPlan, same_place
from broker.server.listening import BACKLOG, open_sockets, prepare
from broker.server.open_listener import Followed, OpenListener, Secured
from broker.server.unix_socket import OpenSocket, open_unix
from broker.telemetry.slices import Slices
from config.models import Listener
from protocol import reason_codes

TURNS: Final = 3
"""Turns of the event loop in which a connection that has just been accepted becomes one of the broker's."""


LISTENERS_STAY: Final = "with cluster.workers above 1 listeners are opened and closed by a restart only"
"""Why a reload of one of several processes is refused."""


class NextListeners(NamedTuple):
    """What a reload has prepared, before anything has changed."""

    plan: ListenerPlan
    changed: list[tuple[OpenListener, Listener, Followed | None]]
    opened: list[OpenListener]

    def renewed(self) -> list[str]:
        """Keys of listeners that stay whose certificates, under the same name, have other contents; before `use`."""
        places = {listener.name: index for index, listener in enumerate(self.plan.applied)}
        return [
            f"listeners[{places[settings.name]}].tls.{key}"
            for one, settings, secured in self.changed
            for key in one.renewed(secured)
        ]

    def discard(self) -> None:
        """It does not come to that."""
        for one in self.opened:
            one.close()


class Listeners:
    """All listeners of one broker."""

    def __init__(self, broker: Broker, opened_ahead: Opened, fixed: bool = False) -> None:
        """`fixed`: other processes have the same listeners, so that a reload opens none."""
        self._broker = broker
        self._fixed = fixed
        self._open: dict[str, OpenListener] = {}
        self._opened_ahead = opened_ahead
        self._closed = False
        self._passed_on: dict[str, list[int]] | None = None

    @property
    def opened(self) -> list[dict[str, Any]]:
        """The log fields of each socket."""
        return [place for one in self._open.values() for place in one.places]

    @property
    def shown(self) -> list[Shown]:
        """The certificates of listeners with TLS."""
        return [each for each in (one.shown for one in self._open.values()) if each is not None]

    @property
    def followed(self) -> list[WatchedFile[Secured]]:
        """The files of TLS."""
        return [each for each in (one.followed for one in self._open.values()) if each is not None]

    async def open(self, listener: Listener) -> None:
        """Listen. Raises OSError, which names the listener."""
        one = await self._bound(OpenListener(self._broker, listener), [])
        self._open[listener.name] = one
        await one.serve()

    async def prepare(self, plan: ListenerPlan) -> NextListeners:
        """Bind the new sockets, and read the files of TLS again, before anything changes. Raises OSError."""
        if self._fixed and (plan.opened or plan.closed):
            raise OSError(LISTENERS_STAY)
        changed: list[tuple[OpenListener, Listener, Followed | None]] = []
        for was, settings in plan.stay:
            one = self._open[was.name]
            try:
                secured = one.secured(settings)
            except OSError:
                if settings is not was:
                    raise
                secured = one.in_use  # it waits for a restart, and its files may be gone: no new value names them
            changed.append((one, settings, secured))
        prepared = NextListeners(plan, changed, [])
        closing = [self._open[listener.name] for listener in plan.closed]
        try:
            for listener in plan.opened:
                before = self._open.get(listener.name)
                one = OpenListener(self._broker, listener, True, None if before is None else before.certificates)
                prepared.opened.append(await self._bound(one, closing))
        except OSError:
            prepared.discard()
            raise
        return prepared

    async def use(self, prepared: NextListeners) -> dict[str, int]:
        """Change, open and close; returns how many connections each listener had that is gone.

        After `close` nothing is opened any more.
        """
        if self._closed:
            prepared.discard()
            return {}
        for one, settings, secured in prepared.changed:
            one.use(settings, secured)
        closed = [self._open.pop(listener.name) for listener in prepared.plan.closed]
        for old in closed:
            for one in prepared.opened:
                if same_place(old.settings, one.settings):
                    one.take_over(old)
            old.close()
        for one in prepared.opened:
            self._open[one.settings.name] = one
            await one.serve()
        order = [listener.name for listener in prepared.plan.applied]
        self._open = {name: self._open[name] for name in order}
        names = {listener.name for listener in prepared.plan.gone}
        return await self._disconnect(names) if names else {}

    def close(self) -> None:
        """Accept nothing more, and abort what has not got as far as MQTT."""
        self._closed = True
        for one in self._open.values():
            one.close()

    # -- internal

    async def _bound(self, one: OpenListener, closing: list[OpenListener]) -> OpenListener:
        """A listener with its sockets. `closing`: those that make room for it. Raises OSError, which names it."""
        listener = one.settings
        try:
            await one.bind(*await self._sockets(listener, closing))
        except OSError as error:
            raise OSError(f"listener {listener.name}: cannot listen on {listener.bind}: {text_of(error)}") from error
        return one

    async def _sockets(
        self, listener: Listener, closing: list[OpenListener]
    ) -> tuple[list[socket.socket], OpenSocket | None]:
        """Open the sockets, or take those that another listener or systemd has opened. Raises OSError."""
        address = listener.address
        for one in closing:
            if same_place(one.settings, listener):
                return [sock.dup() for sock in one.sockets], None
        if listener.name in self._opened_ahead:
            sockets = self._opened_ahead.pop(listener.name)
            for sock in sockets:
                prepare(sock)
            return sockets, None
        if address.path:
            opened = open_unix(Path(address.path), int(listener.mode, 8), BACKLOG)
            return [opened.sock], opened
        if address.host:
            return await self._beside(listener, [one for one in closing if one.settings.port == address.port]), None
        if self._passed_on is None:
            self._passed_on = passed_on()
        sockets = sockets_named(address.unit, self._passed_on)
        for sock in sockets:
            prepare(sock)
        return sockets, None

    async def _beside(self, listener: Listener, closing: list[OpenListener]) -> list[socket.socket]:
        """Open the sockets of a host and port. Those of `closing` may be in the way, as 0.0.0.0 is for 127.0.0.1."""
        for one in closing:
            one.share(True)
        try:
            sockets = await open_sockets(listener.host, listener.port, listener.reuse_port or bool(closing))
        finally:
            for one in closing:
                one.share(one.settings.reuse_port)
        if closing:
            for sock in sockets:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, listener.reuse_port)
        return sockets

    async def _disconnect(self, names: set[str]) -> dict[str, int]:
        """Disconnect the clients of listeners that are closed; returns how many there were."""
        slices = Slices()
        count = dict.fromkeys(names, 0)
        for _ in range(TURNS):
            await asyncio.sleep(0)
            for connection in list(self._broker.connections.open):
                if connection.listener in names and not connection.gate.closed:
                    count[connection.listener] += 1
                    connection.close(reason_codes.ADMINISTRATIVE_ACTION, "its listener has been closed")
                await slices.breathe()
        return count
