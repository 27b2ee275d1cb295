"""Connections that come through a proxy: the header that says who the client is, before TLS, WebSocket or MQTT.

When the header is read, the protocol that follows takes the connection over, so that the header costs nothing later.
"""

import asyncio
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Final, cast

from broker.connection.log import host_of, peer_of
from broker.events import Events
from broker.runtime.clock import SECOND, monotonic_us
from broker.runtime.origin import Origin
from broker.runtime.timers import Timer, Wheel
from broker.server.proxy_header import HeaderError, read
from broker.settings import Settings
from config.models import ProxyProtocol

TIMEOUT: Final = 60 * SECOND
"""Microseconds until the header has to be there, even if `connect_timeout` is longer or not set."""


class ProxiedListener:
    """A listener whose connections begin with a header; `following` makes the protocol of what comes behind it."""

    def __init__(
        self,
        events: Events,
        wheel: Wheel,
        settings: Settings,
        name: str,
        own: ProxyProtocol,
        following: Callable[[Origin | None], asyncio.Protocol],
    ) -> None:
        self.wheel = wheel
        self.following = following
        self._settings = settings
        self.ongoing: set[ProxiedConnection] = set()
        self.log = events.log
        self.name = name
        self._trusted = [ip_network(network) for network in own.trusted]

    @property
    def timeout(self) -> int:
        """Microseconds until the header has to be there."""
        return min(self._settings.connect_timeout or TIMEOUT, TIMEOUT)

    def accept(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        return cast("asyncio.Protocol", ProxiedConnection(self))

    def trusts(self, peer: object) -> bool:
        """Whether this peer may say who its clients are; one that has no IP address has come by a Unix socket."""
        if not isinstance(peer, tuple):
            return True
        # IPv4 on an IPv6 socket is trusted by either form.
        addresses = [ip_address(str(host).partition("%")[0]) for host in (host_of(peer), peer[0])]
        return any(address in network for address in addresses for network in self._trusted)

    def close(self) -> None:
        """Abort what has not sent its header: the server stops."""
        for connection in list(self.ongoing):
            connection.abort()


class ProxiedConnection(Timer):
    """The protocol of a connection until its header is read, and the timer of its timeout."""

    def __init__(self, listener: ProxiedListener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._peer = ""
        self._received = b""

    # -- what the transport calls

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Refuse who is not trusted; wait for the header of the others."""
        self._transport = transport
        self._peer = peer_of(transport)  # now: it is not available after a reset
        if not self._listener.trusts(transport.get_extra_info("peername")):
            self._refuse("its address is not among listeners[].proxy_protocol.trusted")
            return
        self._listener.ongoing.add(self)
        self._listener.wheel.add(monotonic_us() + self._listener.timeout, self)

    def data_received(self, data: bytes) -> None:
        """Read the header; what is behind it is the client's."""
        transport = self._transport
        if transport is None:
            return
        self._received += data
        try:
            header = read(self._received)
        except HeaderError as error:
            self._refuse(str(error))
            return
        if header is None:
            return
        rest = self._received[header.length :]
        self._end()
        protocol = self._listener.following(header.origin)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if rest:
            cast("asyncio.Protocol", transport.get_protocol()).data_received(rest)  # a trace may have set another

    def eof_received(self) -> bool:
        """The proxy has closed; health checks often do so without a word."""
        if self._received:
            self._refuse("closed before its header was complete")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self._end()

    def pause_writing(self) -> None:
        """Nothing to do: nothing is written."""

    def resume_writing(self) -> None:
        """Nothing to do."""

    # -- as a timer

    def wanted(self) -> bool:
        """False if the header has been read or the connection is closed."""
        return self._transport is not None

    def due(self, now: int) -> None:
        """The header has not come in time."""
        self._refuse(f"no complete header within {self._listener.timeout / SECOND:g} s")

    def abort(self) -> None:
        """Abort the connection."""
        transport = self._transport
        self._end()
        if transport is not None:
            transport.abort()

    # -- internal

    def _refuse(self, reason: str) -> None:
        if self._transport is not None:
            listener = self._listener
            listener.log.info("proxy_header_refused", listener=listener.name, peer=self._peer, reason=reason)
            self.abort()

    def _end(self) -> None:
        """Release the transport."""
        self._listener.ongoing.discard(self)
        self._transport = None
        self._received = b""
