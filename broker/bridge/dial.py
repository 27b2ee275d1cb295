"""Opens the connection to a remote broker: TCP, TLS, WebSocket."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, cast

from broker.connection.client_socket import ClientSocket
from broker.runtime.endpoint import CLOSED_SOCKET
from broker.runtime.own_thread import in_own_thread
from config.bridge import Bridge, BridgeTls, RemoteAddress
from config.file_sizes import read_bytes
from config.value_types import MAX_UINT16

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class Secrets(NamedTuple):
    """What a connection needs from files. They are read for each one, so that renewed ones count."""

    password: bytes | None
    context: ssl.SSLContext | None


async def read_secrets(bridge: Bridge, address: RemoteAddress) -> Secrets:
    """Read the files that a connection to this address needs. Raises OSError, which names the key and the file."""
    return await in_own_thread(lambda: _read(bridge, address), "bridge")


def _read(bridge: Bridge, address: RemoteAddress) -> Secrets:
    password = None if bridge.password_file is None else _password(bridge.password_file)
    return Secrets(password, _context(bridge.tls or BridgeTls(), address) if address.tls else None)


def _password(path: Path) -> bytes:
    try:
        password = read_bytes(path, "password_file").rstrip(b"\r\n")
    except OSError as error:
        raise OSError(f"password_file: {error}") from error
    if len(password) > MAX_UINT16:
        raise OSError(f"password_file: {str(path)!r} has {len(password)} bytes: a password has at most {MAX_UINT16}")
    return password


def _context(tls: BridgeTls, address: RemoteAddress) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if tls.cafile is None else str(tls.cafile))
        if tls.certfile is not None:
            context.load_cert_chain(tls.certfile, tls.keyfile, _no_passphrase)
        if tls.ciphers is not None:
            context.set_ciphers(tls.ciphers)
    except (OSError, ValueError) as error:  # OpenSSL's errors name no file
        named = ", ".join(str(file) for file in (tls.cafile, tls.certfile, tls.keyfile) if file is not None)
        raise OSError(f"tls: {error} ({named or 'the authorities of this machine'})") from error
    context.minimum_version = _VERSIONS[tls.minimum_version]
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    protocols = tls.alpn or (["http/1.1"] if address.websocket else [])
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


def _no_passphrase() -> str:
    """OpenSSL would ask for it at the terminal."""
    raise ValueError("the private key is encrypted: store it without a passphrase")


async def dial(
    address: RemoteAddress,
    bridge: Bridge,
    context: ssl.SSLContext | None,
    max_packet_size: int,
    new_socket: Callable[[], ClientSocket],
) -> None:
    """Open a connection; it sends CONNECT by itself. Raises OSError."""

    made: list[ClientSocket] = []

    def protocol() -> asyncio.Protocol:
        # Native classes cannot inherit asyncio.Protocol, and event loops only call its methods.
        socket = new_socket()
        made.append(socket)
        if not address.websocket:
            return cast("asyncio.Protocol", socket)
        from broker.bridge.websocket import ClientWebSocket

        return cast("asyncio.Protocol", ClientWebSocket(address, socket, max_packet_size))

    name = None
    if context is not None:
        name = bridge.tls.server_name if bridge.tls is not None and bridge.tls.server_name else address.host
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(protocol, address.host, address.port, ssl=context, server_hostname=name)
    finally:
        for each in made:
            if each.transport is None:  # uvloop makes it before it connects, and never tells it that this has failed
                each.connection.abort()
                each.connection.socket = CLOSED_SOCKET  # else the two would be garbage that refers to itself
