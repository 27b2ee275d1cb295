"""The TLS layer between a TCP transport and the connection: pauses, ends, water marks, on both loops."""

import asyncio
import shutil
import socket
import ssl
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from typing import Final, cast

import pytest

from broker.broker import Broker
from broker.connection.tls_transport import MOST_ANSWERS, Bios, TlsTransport
from broker.connection.transport import left_in_socket
from broker.runtime.clock import monotonic_us
from broker.server.listening import MQTT, server_contexts
from broker.server.tls_handshake import TlsListener
from config.models import Config
from config.tls import Tls
from tests.support.broker.tls_client import TlsClient
from tests.support.certificates import Certificates
from tests.support.waiting import until

on_both_loops = pytest.mark.asyncio(loop_factories=["uvloop", "asyncio"])
MARK: Final = 65_536
ENDS: Final = ["close_notify", "fin", "reset", "garbage"]


class Upper(asyncio.Protocol):
    """Takes a note of what it is told."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.told: list[str] = []
        self.data = b""
        self.left = b""
        """What it could still read when it was told that the connection is lost."""
        self.pauses = False
        """Whether it reads no further at the first data."""
        self.stays = False
        """Whether it has more to say when the client has ended."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        if self.told[-1] != "data":
            self.told.append("data")
        self.data += data
        if self.pauses:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.told.append("eof")
        return self.stays

    def connection_lost(self, error: Exception | None) -> None:
        self.left = left_in_socket(self.transport)
        self.told.append("lost")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


async def turns() -> None:
    """Let the loop notice everything that it is going to notice."""
    for _ in range(20):
        await asyncio.sleep(0.001)


@pytest.fixture
def upper() -> Upper:
    """What is above the TLS connection."""
    return Upper()


@pytest.fixture
async def client(upper: Upper, certificates: Certificates) -> AsyncIterator[TlsClient]:
    """What is at the other end of the TLS connection."""
    tls = Tls(certfile=certificates.server.certfile, keyfile=certificates.server.keyfile)
    broker = Broker(Config(), monotonic_us())
    contexts = server_contexts(tls, MQTT)
    listener = TlsListener(broker.events, broker.wheel, broker.settings, "tls", contexts, lambda _: upper)
    server = await asyncio.get_running_loop().create_server(lambda: listener.accept(None), "127.0.0.1", 0)
    client = TlsClient(certificates.client_context(with_certificate=False))
    try:
        await client.connect(server.sockets[0].getsockname()[:2])
        await until(lambda: upper.told == ["made"])
        yield client
    finally:
        client.socket.close()
        await until(lambda: "lost" in upper.told)
        server.close()


async def end_stream(client: TlsClient, end: str, data: bytes) -> None:
    """Send these records, and end the stream right behind them."""
    if end == "close_notify":
        data += client.goodbye()
    elif end == "garbage":
        data += b"\x17\x03\x03\x00\x20" + bytes(32)
    await client.send(data)
    if end == "reset":
        client.reset()
    elif end != "garbage":
        client.socket.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("end", ENDS)
@on_both_loops
async def test_ends(upper: Upper, client: TlsClient, end: str) -> None:
    """All data before the end is handed over before the end, whatever kind of end it is."""
    await end_stream(client, end, client.seal(b"x" * 30_000))
    await until(lambda: upper.told[-1] == "lost")
    assert upper.data == b"x" * 30_000
    assert upper.told == (["made", "data", "lost"] if end == "reset" else ["made", "data", "eof", "lost"])


@pytest.mark.parametrize("end", ENDS)
@on_both_loops
async def test_end_during_a_pause(upper: Upper, client: TlsClient, end: str) -> None:
    """While reading is paused neither data nor the end is handed over; afterwards all is, in order."""
    upper.pauses = True
    await client.send(client.seal(b"first"))
    await until(lambda: upper.data == b"first")
    await end_stream(client, end, client.seal(b"second"))
    await turns()
    assert upper.data == b"first"
    assert upper.told == ["made", "data"]
    upper.pauses = False
    upper.transport.resume_reading()
    await until(lambda: upper.told[-1] == "lost")
    assert upper.data == b"firstsecond"
    assert upper.told == (["made", "data", "lost"] if end == "reset" else ["made", "data", "eof", "lost"])


@pytest.mark.parametrize("end", ["close_notify", "garbage"])
@on_both_loops
async def test_end_in_the_chunk_that_pauses(upper: Upper, client: TlsClient, end: str) -> None:
    """An end in the same chunk as the data waits until reading is resumed."""
    upper.pauses = True
    await end_stream(client, end, client.seal(b"all"))
    await until(lambda: upper.data == b"all")
    await turns()
    assert upper.told == ["made", "data"]
    upper.transport.resume_reading()
    await until(lambda: upper.told[-1] == "lost")
    assert upper.told == ["made", "data", "eof", "lost"]


@on_both_loops
async def test_write_that_fails_during_a_pause(upper: Upper, client: TlsClient) -> None:
    """A write to a reset connection closes it; data that arrived before the reset is handed over."""
    upper.pauses = True
    await client.send(client.seal(b"first"))
    await until(lambda: upper.data == b"first")
    await client.send(client.seal(b"second"))
    client.reset()
    for _ in range(2):
        upper.transport.write(b"answer")
    await until(lambda: upper.told[-1] == "lost")
    assert upper.data == b"firstsecond"


@pytest.mark.parametrize("end", ["close_notify", "garbage"])
@on_both_loops
async def test_plaintext_behind_the_end(upper: Upper, client: TlsClient, end: str) -> None:
    """Bytes behind the end of TLS are discarded, also when a connection breaks with unread data."""
    upper.pauses = True
    data = client.seal(b"first")
    await client.send(data + (client.goodbye() if end == "close_notify" else b"\x17\x03\x03\x00\x20" + bytes(32)))
    await until(lambda: upper.data == b"first")
    await client.send(b"forged")
    client.reset()
    for _ in range(2):
        upper.transport.write(b"answer")
    await until(lambda: upper.told[-1] == "lost")
    assert (upper.data, upper.left) == (b"first", b"")


@on_both_loops
async def test_half_open(upper: Upper, client: TlsClient) -> None:
    """A client that has sent close_notify gets the remaining data, then close_notify."""
    upper.stays = True
    await client.send(client.seal(b"question") + client.goodbye())
    await until(lambda: upper.told[-1] == "eof")
    upper.transport.write(b"answer")
    assert await client.read(6) == b"answer"
    upper.transport.write(b"x" * 300_000)
    upper.transport.close()
    assert await client.read(400_000) == b"x" * 300_000


@on_both_loops
async def test_write_eof(upper: Upper, client: TlsClient) -> None:
    """After write_eof the client's data is still handed over, until the client ends its side."""
    upper.transport.write(b"bye")
    assert upper.transport.can_write_eof()
    upper.transport.write_eof()
    upper.transport.write(b"too late")
    assert await client.read(100) == b"bye"
    await client.send(client.seal(b"well"))
    await until(lambda: upper.data == b"well")
    await end_stream(client, "fin", client.seal(b", bye"))
    await until(lambda: upper.told[-1] == "lost")
    assert upper.data == b"well, bye"


@on_both_loops
async def test_marks(upper: Upper, client: TlsClient) -> None:
    """The water marks count all outgoing bytes, wherever they wait; these are written before the close."""
    transport = upper.transport
    transport.set_write_buffer_limits(MARK)
    written = 0
    while upper.told == ["made"]:
        transport.writelines([b"x" * 10_000, b"x" * 10_000])
        written += 20_000
        assert written < 20_000_000
    assert upper.told[-1] == "pause"
    assert MARK < transport.get_write_buffer_size() < MARK + 25_000
    assert await client.read(written) == b"x" * written
    await until(lambda: upper.told[-1] == "resume")
    assert transport.get_write_buffer_size() == 0


@on_both_loops
async def test_many_records(upper: Upper, client: TlsClient) -> None:
    """Records of any size arrive unchanged, sent byte by byte or all at once."""
    sent = b""
    for size in (1, 16_384, 16_385, 100, 40_000):
        piece = bytes([size % 251]) * size
        sent += piece
        await client.send(client.seal(piece))
    for byte in client.seal(b"slowly"):
        await client.send(bytes([byte]))
    await until(lambda: upper.data == sent + b"slowly")
    upper.transport.write(sent)
    assert await client.read(len(sent)) == sent


class Talkative:
    """In place of OpenSSL: it answers all that comes, as with KeyUpdate, and finds no data in it."""

    def __init__(self, bios: Bios) -> None:
        self.bios = bios

    def read(self, _: int) -> bytes:
        self.bios.outgoing.write(self.bios.incoming.read())
        raise ssl.SSLWantReadError


class Full:
    """In place of a TCP transport whose client reads nothing."""

    def __init__(self) -> None:
        self.written = 0
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def get_write_buffer_size(self) -> int:
        return self.written

    def abort(self) -> None:
        self.aborted = True


def test_answers_that_nobody_reads() -> None:
    """A client that makes TLS itself answer, and reads no answers, is cut off."""
    bios = Bios()
    tcp = Full()
    tls = cast(ssl.SSLObject, Talkative(bios))
    transport = TlsTransport(cast(asyncio.Transport, tcp), tls, bios, Upper())
    transport.data_received(bytes(MOST_ANSWERS))
    assert not tcp.aborted
    transport.data_received(b"x")
    assert tcp.aborted
    transport.data_received(b"x")
    assert tcp.written == MOST_ANSWERS + 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed (Debian: openssl)")
@on_both_loops
async def test_key_update(upper: Upper, client: TlsClient) -> None:
    """A client may update its keys at any time and ask for an update; both sides continue."""
    host, port = client.socket.getpeername()
    command = ["openssl", "s_client", "-connect", f"{host}:{port}"]
    upper.told.clear()
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=STDOUT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await until(lambda: upper.told == ["made"])
        process.stdin.write(b"K\n")
        await asyncio.wait_for(process.stdout.readuntil(b"KEYUPDATE\n"), 5)
        process.stdin.write(b"question\n")
        await until(lambda: upper.data == b"question\n")
        upper.transport.write(b"answer\n")
        await asyncio.wait_for(process.stdout.readuntil(b"answer\n"), 5)
    finally:
        process.kill()
        await process.communicate()


@on_both_loops
async def test_what_is_known(upper: Upper, client: TlsClient) -> None:
    """get_extra_info answers for TLS and for the socket below."""
    transport = upper.transport
    assert transport.get_extra_info("peername") == client.socket.getsockname()
    assert transport.get_extra_info("ssl_object").version() == "TLSv1.3"
    assert transport.get_extra_info("cipher") == client.tls.cipher()
    assert transport.get_extra_info("peercert") is None
    assert transport.get_extra_info("nothing", "so") == "so"
    assert not transport.is_closing()
    transport.abort()
    assert transport.is_closing()
