"""What a listener needs before it accepts connections: its sockets and its TLS context."""

import asyncio
import errno
import socket
import ssl
from typing import Final

from config.models import Tls

BACKLOG: Final = 4096
"""Connections that the kernel holds until they are accepted: 10,000 clients may come back at once."""

UNSENT_BYTES: Final = 65_536
"""What the kernel takes for a client beyond what is on its way to it (TCP_NOTSENT_LOWAT). By itself it takes megabytes,
and a slow client shows seconds late: what waits there can no longer be put in order by the gate (FC-3)."""

PROBE_AFTER: Final = 60
"""Seconds of silence after which the kernel asks whether the other side is still there (TCP_KEEPIDLE). By itself it
asks after two hours, and a client without a keepalive of MQTT's own may be silent for as long as it likes."""

PROBE_EVERY: Final = 15
"""Seconds between two such questions (TCP_KEEPINTVL)."""

PROBES: Final = 8
"""Questions without an answer that end the connection (TCP_KEEPCNT): a client may be out of reach for two minutes."""

_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""What says that this machine does not have an address, or not its family."""


async def open_sockets(host: str, port: int) -> list[socket.socket]:
    """Open a listening socket on every address that `host` stands for, all on the same port.

    Of a name's addresses, those that this machine does not have are passed over, as long as there is one that it has:
    `localhost` is often written down as ::1 too where IPv6 is switched off. Raises OSError for everything else.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            if opened:
                port = opened[0].getsockname()[1]  # where it was 0: the one that the first address got
            try:
                opened.append(_open(family, (address[0], port, *address[2:])))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
        if missing is not None and not opened:
            raise missing
    except OSError:
        for sock in opened:
            sock.close()
        raise
    return opened


_MINIMUM = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def _open(family: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # An IPv6 address stands for itself: [::] beside 0.0.0.0 is no clash.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _set_options(sock)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _set_options(sock: socket.socket) -> None:
    """Set what connections inherit, as far as this system has it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_NOTSENT_LOWAT", UNSENT_BYTES),
        ("TCP_KEEPIDLE", PROBE_AFTER),
        ("TCP_KEEPINTVL", PROBE_EVERY),
        ("TCP_KEEPCNT", PROBES),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def server_context(tls: Tls) -> ssl.SSLContext:
    """The context that a listener's configuration asks for. Raises OSError, naming the file at fault."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = _MINIMUM[tls.minimum_version]
    context.options |= ssl.OP_NO_RENEGOTIATION  # OpenSSL 1.1.1 lets clients ask for it; compression is off
    try:
        context.load_cert_chain(tls.certfile, tls.keyfile)
    except (OSError, ssl.SSLError) as error:
        key = tls.keyfile or tls.certfile
        raise OSError(f"certificate {tls.certfile} with key {key} cannot be used: {error}") from error
    if tls.cafile is not None:
        try:
            context.load_verify_locations(tls.cafile)
        except (OSError, ssl.SSLError) as error:
            raise OSError(f"authorities in {tls.cafile} cannot be used: {error}") from error
        context.verify_mode = ssl.CERT_REQUIRED if tls.require_client_certificate else ssl.CERT_OPTIONAL
    return context
