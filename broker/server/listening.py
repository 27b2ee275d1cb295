"""Opens the sockets of a listener and creates its TLS context."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.runtime.os_errors import text_of
from broker.server.x509 import certificates
from config.tls import Tls

BACKLOG: Final = 4096
"""Length of the accept queue: 10,000 clients may reconnect at once."""

UNSENT_BYTES: Final = 65_536
"""Bytes not yet sent that the kernel accepts for a connection (TCP_NOTSENT_LOWAT). By default these are megabytes: a
slow client becomes congested seconds too late, and the gate (FC-3) has no effect on what is already in the kernel."""

PROBE_AFTER: Final = 60
"""Seconds without traffic after which the kernel sends a TCP keep-alive probe (TCP_KEEPIDLE). The default is two hours,
and a client without MQTT's keep-alive need not send anything."""

PROBE_EVERY: Final = 15
"""Seconds between two probes (TCP_KEEPINTVL)."""

PROBES: Final = 8
"""Unanswered probes that end the connection (TCP_KEEPCNT): a client may be unreachable for two minutes."""

_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""The machine does not have this address or does not support its family."""

MQTT: Final = "mqtt"
HTTP: Final = "http/1.1"
"""Names of protocols (ALPN). WebSocket begins as HTTP, and has no name of its own."""

_KEY_ERRORS: Final = dict.fromkeys(
    ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"), "the key is not the one of the certificate"
)

_PEM: Final = "write what openssl can read, in PEM form"

_MINIMUM: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


_HINTS: Final = {
    errno.EADDRINUSE: "another program listens there: stop it, or choose another port",
    errno.EADDRNOTAVAIL: "this machine does not have that address; 0.0.0.0 and [::] stand for all that it has",
    errno.EACCES: "ports below 1024 need the capability CAP_NET_BIND_SERVICE, or systemd opens them (systemd:NAME)",
}
"""What helps if a port cannot be opened."""


async def open_sockets(host: str, port: int, shared: bool = False) -> list[socket.socket]:
    """Open a listening socket on every address of `host`, all on the same port.

    `shared`: other processes of this user may listen on the port too (SO_REUSEPORT), if they say the same.
    Addresses that this machine does not have are skipped if it has at least one of them: `localhost` often includes ::1
    on machines without IPv6. Raises OSError for everything else.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return _open_each(found, port, shared)


def open_shared(host: str, port: int) -> list[socket.socket]:
    """The same as `open_sockets` with `shared`, before there is an event loop."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return _open_each(found, port, True)


def _open_each(found: Sequence[tuple[Any, ...]], port: int, shared: bool) -> list[socket.socket]:
    opened: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            if opened:
                port = opened[0].getsockname()[1]  # if it was 0: the port of the first socket
            try:
                opened.append(_open(family, (address[0], port, *address[2:]), shared))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
        if missing is not None and not opened:
            raise missing
    except OSError as error:
        for sock in opened:
            sock.close()
        if hint := _HINTS.get(error.errno or 0):
            raise OSError(error.errno, f"{error.strerror} ({hint})") from error
        raise
    return opened


def _open(family: int, address: tuple[object, ...], shared: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # Accept IPv6 only, so that [::] and 0.0.0.0 can be bound together.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _set_options(sock)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def prepare(sock: socket.socket) -> None:
    """Set the options of a listening socket that another process has opened."""
    if sock.family != socket.AF_UNIX:
        _set_options(sock)


def _set_options(sock: socket.socket) -> None:
    """Set the options that connections inherit, if this system has them."""
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


class Contexts(NamedTuple):
    """TLS of a listener. A client's session is of one of them, and the other does not know it."""

    first: ssl.SSLContext
    """For each ClientHello. If it verifies clients, it sends an alert to those that resume a session."""
    full: ssl.SSLContext
    """For the ClientHello of such a client, which then gets a full handshake."""


def _no_password() -> str:
    """OpenSSL would ask for one on the terminal otherwise, and leave the broker's signals changed."""
    raise OSError("the private key is encrypted: store it without a passphrase")


def server_contexts(tls: Tls, protocol: str) -> Contexts:
    """The TLS contexts of a listener's configuration: only one if clients are not verified. Raises OSError."""
    first = server_context(tls, protocol)
    return Contexts(first, first if tls.cafile is None else server_context(tls, protocol))


def server_context(tls: Tls, protocol: str) -> ssl.SSLContext:
    """The TLS context of a listener's configuration. Raises OSError, which names the file that is wrong.

    `protocol`: what is spoken, for clients that ask for it (ALPN); the others are served all the same. Empty = none.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = _MINIMUM[tls.minimum_version]
    context.options |= ssl.OP_NO_RENEGOTIATION  # OpenSSL 1.1.1 allows it by default; compression is off
    if protocol:
        context.set_alpn_protocols([protocol])
    if tls.ciphers is not None:
        context.set_ciphers(tls.ciphers)
    if tls.curve is not None:
        context.set_ecdh_curve(tls.curve)
    try:
        context.load_cert_chain(tls.certfile, tls.keyfile, _no_password)
    except OSError as error:
        key = tls.keyfile or tls.certfile
        text = f"{text_of(error)}: {_PEM}" if isinstance(error, ssl.SSLError) else text_of(error)
        why = _KEY_ERRORS.get(getattr(error, "reason", None) or "", text)
        raise OSError(f"certificate {tls.certfile} with key {key} cannot be used: {why}") from error
    if tls.cafile is not None:
        try:
            context.load_verify_locations(tls.cafile)
        except OSError as error:
            raise OSError(f"authorities in {tls.cafile} cannot be used: {text_of(error)}: {_PEM}") from error
        _set_chain(context, tls.cafile, tls.partial_chain)
        context.verify_mode = ssl.CERT_REQUIRED if tls.require_client_certificate else ssl.CERT_OPTIONAL
        # OpenSSL does not verify again whose session is resumed: a certificate would count after it has expired. TLS
        # 1.3 has no resumption without tickets. In TLS 1.2 Python cannot turn off session ids.
        context.num_tickets = 0
        context.sni_callback = _refuse_resumption
    if tls.crlfile is not None:
        try:
            context.load_verify_locations(tls.crlfile)
        except (OSError, ssl.SSLError) as error:
            raise OSError(f"revocation lists in {tls.crlfile} cannot be used: {text_of(error)}: {_PEM}") from error
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    return context


def _set_chain(context: ssl.SSLContext, cafile: Path, partial: bool) -> None:
    """Whether a client's chain may end at an authority that is no root. Raises OSError if no chain could end.

    Python 3.13 allows it by itself, and older versions do not: here the configuration says so.
    """
    if partial:
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        return
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        found = certificates(cafile.read_bytes())
    except ValueError:
        return  # one that only OpenSSL can read may be a root
    if found and not any(each.self_issued or each.trusted for each in found):
        raise OSError(
            f"authorities in {cafile} cannot be used: there is no root among them, where the chain of a client's "
            "certificate has to end; add the root, or set partial_chain: true to trust these themselves"
        )


def _refuse_resumption(tls: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
    """The alert to a client that resumes a session; called once a ClientHello is read, also if it names no server."""
    return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE if tls.session_reused else None
