"""A TLS connection after its handshake: a transport for the protocol above, a protocol for the TCP transport below.

It has no buffer. Received bytes are decrypted and passed up at once, written bytes are encrypted and passed down at
once; only OpenSSL keeps the bytes of an incomplete record. So no bytes are lost between the two transports. The TCP
transport's water marks govern writing (FC-3), and pausing reading pauses the TCP transport.
"""

import asyncio
import ssl
from typing import Final, cast, final

from broker.connection.transport import left_in_socket
from broker.runtime.os_errors import text_of

RECORD: Final = 16_384
"""The most bytes of plaintext in one record (RFC 8446, 5.1)."""
MOST_ANSWERS: Final = 65_536
"""Bytes that TLS itself may send (KeyUpdate) while the client does not drain; past that the connection is aborted."""


@final
class Bios:
    """OpenSSL's memory buffers for encrypted bytes.

    All connections of a listener share them, because OpenSSL never frees their memory. Each use empties them before it
    returns to the event loop.
    """

    def __init__(self) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()

    def clear(self) -> None:
        """Empty both, so that no other connection gets the bytes."""
        self.incoming.read()
        self.outgoing.read()


@final
class TlsTransport:
    """Duck-typed on both sides, like Connection: native classes cannot inherit asyncio's."""

    def __init__(self, tcp: asyncio.Transport, tls: ssl.SSLObject, bios: Bios, upper: asyncio.Protocol) -> None:
        self._tcp = tcp
        self._tls = tls
        self._bios = bios
        self._upper = upper
        self._paused = False
        self._closing = False
        self._write_closed = False
        """Whether nothing can be written any more: close_notify has been sent, or the connection is lost."""
        self._tcp_ended = False
        self._ended = False
        """Whether the client's stream has ended: close_notify, FIN, or an invalid record."""
        self._broken = ""
        """The TLS error that ended it; empty = none."""
        self._end_reported = False
        self._answers = 0

    def start(self, rest: bytes) -> None:
        """The handshake is done; `rest` was received after it."""
        self._upper.connection_made(cast("asyncio.Transport", self))
        if rest:
            self.data_received(rest)

    # -- what the TCP transport calls

    def data_received(self, data: bytes) -> None:
        """Decrypt it, and pass the plaintext up in one piece."""
        if self._ended:
            return  # ignored after the end
        incoming = self._bios.incoming
        tls = self._tls
        pieces: list[bytes] = []
        incoming.write(data)
        try:
            while incoming.pending:  # one more read would raise SSLWantReadError, which costs more than a record
                piece = tls.read(RECORD)
                if not piece:
                    self._ended = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._ended = True
        except ssl.SSLError as error:
            self._ended = True
            self._broken = f"TLS has failed: {text_of(error)}"
        except BaseException:
            self._bios.clear()
            raise
        if incoming.pending:  # after the end
            incoming.read()
        if self._bios.outgoing.pending:
            self._answer(self._bios.outgoing.read())
        if pieces:
            self._upper.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._ended:
            self._report_end()

    def eof_received(self) -> bool:
        """The client's FIN, with or without a close_notify before it. `close` closes the TCP transport."""
        self._tcp_ended = self._ended = True
        self._report_end()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """The TCP transport is closed; handle what is left in its socket."""
        self._write_closed = True
        if error is not None and not (self._closing or self._ended):
            rest = left_in_socket(self._tcp)
            if rest:
                self.data_received(rest)
        self._closing = True
        self._upper.connection_lost(error)

    def pause_writing(self) -> None:
        """Pass it on: there is no buffer here."""
        self._upper.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._upper.resume_writing()

    # -- what the protocol above calls

    def set_protocol(self, upper: asyncio.Protocol) -> None:
        """From now on this is the protocol above."""
        self._upper = upper

    def write(self, data: bytes) -> None:
        """Encrypt and write it."""
        if self._write_closed or not data:
            return
        outgoing = self._bios.outgoing
        try:
            if len(data) <= RECORD:
                self._tls.write(data)
                self._tcp.write(outgoing.read())
                return
            view = memoryview(data)
            records: list[bytes] = []
            for at in range(0, len(data), RECORD):
                self._tls.write(view[at : at + RECORD])
                records.append(outgoing.read())
            self._tcp.writelines(records)
        except BaseException as error:  # the client could not decrypt what follows
            self._bios.clear()
            self.abort()
            if not isinstance(error, ssl.SSLError):
                raise

    def writelines(self, pieces: list[bytes]) -> None:
        """Encrypt and write them, in as few records as they fit in."""
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        """Pause the TCP transport, so that TCP slows the client."""
        self._paused = True
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading. If the stream has ended during the pause, report that now."""
        self._paused = False
        if self._ended and not self._end_reported:
            asyncio.get_running_loop().call_soon(self._report_end)
        if not self._tcp_ended:
            self._tcp.resume_reading()

    def can_write_eof(self) -> bool:
        """Yes: with close_notify and FIN."""
        return True

    def write_eof(self) -> None:
        """Write close_notify and FIN after what has been written; reading continues."""
        if not self._write_closed:
            self._send_close_notify()
            self._tcp.write_eof()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing or self._tcp.is_closing()

    def close(self) -> None:
        """Close when everything is written, without waiting for the client's close_notify: its FIN means the same."""
        if self._closing:
            return
        self._closing = True
        if not self._write_closed:
            self._send_close_notify()
        self._tcp.close()

    def abort(self) -> None:
        """Close at once, without writing what is left."""
        self._closing = self._write_closed = True
        self._tcp.abort()

    def get_write_buffer_size(self) -> int:
        """Encrypted bytes that wait to be written."""
        return self._tcp.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The marks at which pause_writing and resume_writing are called, in encrypted bytes."""
        self._tcp.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Information about TLS (ssl_object, peercert, cipher, failure), and that of the TCP transport.

        Not the socket: the bytes in it are neither decrypted nor authenticated.
        """
        if name == "ssl_object":
            return self._tls
        if name == "peercert":
            return self._tls.getpeercert()
        if name == "cipher":
            return self._tls.cipher()
        if name == "failure":
            return self._broken or default
        if name == "socket":
            return default
        found: object = self._tcp.get_extra_info(name, default)
        return found

    # -- internal

    def _report_end(self) -> None:
        """Report the end of the stream to the protocol above, unless it is paused; close unless it wants to write."""
        if self._paused or self._end_reported or self._closing:
            return
        self._end_reported = True
        if not self._upper.eof_received() or self._broken:
            self.close()

    def _answer(self, answer: bytes) -> None:
        """Write what TLS itself sends: an alert, an answer to KeyUpdate."""
        if self._write_closed:
            return
        self._tcp.write(answer)
        self._answers = self._answers + len(answer) if self._tcp.get_write_buffer_size() else 0
        if self._answers > MOST_ANSWERS:
            self.abort()

    def _send_close_notify(self) -> None:
        """Write a close_notify."""
        self._write_closed = True
        try:
            self._tls.unwrap()
        except ssl.SSLError:  # no close_notify from the client yet; or TLS has failed, and has sent an alert
            pass
        close_notify = self._bios.outgoing.read()
        if close_notify:
            self._tcp.write(close_notify)
