"""A TLS connection behind its handshake: a transport for the protocol above, a protocol for the TCP transport below.

It owns no buffer. What comes is decrypted and handed up at once, what is written is encrypted and handed down at once:
only OpenSSL keeps bytes, those of an incomplete record. So no bytes are lost between the two transports. The TCP
transport's water marks govern writing (FC-3), and pausing reading pauses the TCP transport.
"""

import asyncio
import ssl
from typing import Final, cast, final

from broker.connection.transport import left_in_socket

RECORD: Final = 16_384
"""The most bytes of plaintext in one record (RFC 8446, 5.1)."""
MOST_ANSWERS: Final = 65_536
"""Bytes that TLS itself may answer a client that does not read (KeyUpdate); past that the client is cut off."""


@final
class Bios:
    """The two ends at which OpenSSL takes and gives what TLS makes of the bytes.

    All connections of a listener share them, because OpenSSL never gives their memory back. Each use
    empties them before it returns to the event loop.
    """

    def __init__(self) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()

    def clear(self) -> None:
        """Throw away what one connection has left, so that no other gets it."""
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
        self._mute = False
        """Whether nothing can be written any more: it has been closed, from this side at least, or is lost."""
        self._tcp_ended = False
        self._ended = False
        """Whether the client's stream has ended: close_notify, FIN, or a record that is none."""
        self._broken = ""
        """Why it has ended, in words, if what has come was no TLS."""
        self._end_told = False
        self._answers = 0

    def start(self, rest: bytes) -> None:
        """The handshake is done; `rest` has come behind it."""
        self._upper.connection_made(cast("asyncio.Transport", self))
        if rest:
            self.data_received(rest)

    # -- what the TCP transport calls

    def data_received(self, data: bytes) -> None:
        """Decrypt it, and hand up what it holds in one piece."""
        if self._ended:
            return  # nothing counts behind the end
        incoming = self._bios.incoming
        tls = self._tls
        pieces: list[bytes] = []
        incoming.write(data)
        try:
            while incoming.pending:  # to ask once more would raise SSLWantReadError, which costs more than a record
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
            self._broken = f"TLS has failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
        except BaseException:
            self._bios.clear()
            raise
        if incoming.pending:  # behind the end
            incoming.read()
        if self._bios.outgoing.pending:
            self._answer(self._bios.outgoing.read())
        if pieces:
            self._upper.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._ended:
            self._tell_end()

    def eof_received(self) -> bool:
        """The client's FIN, with or without a close_notify before it. The TCP transport stays: we close it."""
        self._tcp_ended = self._ended = True
        self._tell_end()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """The TCP transport is gone; what it had taken in counts still."""
        self._mute = True
        if error is not None and not (self._closing or self._ended):
            rest = left_in_socket(self._tcp)
            if rest:
                self.data_received(rest)
        self._closing = True
        self._upper.connection_lost(error)

    def pause_writing(self) -> None:
        """Nothing waits here, so what the TCP transport says is what there is to say."""
        self._upper.pause_writing()

    def resume_writing(self) -> None:
        """The same."""
        self._upper.resume_writing()

    # -- what the protocol above calls

    def write(self, data: bytes) -> None:
        """Encrypt and write it."""
        if self._mute or not data:
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
        except BaseException as error:  # the client could make nothing of what came behind
            self._bios.clear()
            self.abort()
            if not isinstance(error, ssl.SSLError):
                raise

    def writelines(self, pieces: list[bytes]) -> None:
        """Encrypt and write them, in as few records as they fit in."""
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        """Have TCP hold the client back."""
        self._paused = True
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        """Read on. If the end has come during the pause, it is told now."""
        self._paused = False
        if self._ended and not self._end_told:
            asyncio.get_running_loop().call_soon(self._tell_end)
        if not self._tcp_ended:
            self._tcp.resume_reading()

    def can_write_eof(self) -> bool:
        """Yes: a close_notify, and FIN behind it."""
        return True

    def write_eof(self) -> None:
        """Write no more, once what has been written is on its way; what the client still sends is read."""
        if not self._mute:
            self._say_goodbye()
            self._tcp.write_eof()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing or self._tcp.is_closing()

    def close(self) -> None:
        """Close when everything is written. It is not waited for the client's close_notify: its FIN says the same."""
        if self._closing:
            return
        self._closing = True
        if not self._mute:
            self._say_goodbye()
        self._tcp.close()

    def abort(self) -> None:
        """Close now, whatever is left to write."""
        self._closing = self._mute = True
        self._tcp.abort()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be written, as they go out."""
        return self._tcp.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The marks at which pause_writing and resume_writing are called, in bytes as they go out."""
        self._tcp.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What is known of TLS here (ssl_object, peercert, cipher, failure), and of the connection below.

        Not its socket: what can be read there has not been decrypted, and anybody on the way can have sent it.
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

    # -- within

    def _tell_end(self) -> None:
        """Tell the protocol above, once it reads, that the client has ended; close unless it wants to write."""
        if self._paused or self._end_told or self._closing:
            return
        self._end_told = True
        if not self._upper.eof_received() or self._broken:
            self.close()

    def _answer(self, answer: bytes) -> None:
        """Write what TLS itself has to say: an alert, an answer to KeyUpdate."""
        if self._mute:
            return
        self._tcp.write(answer)
        self._answers = self._answers + len(answer) if self._tcp.get_write_buffer_size() else 0
        if self._answers > MOST_ANSWERS:
            self.abort()

    def _say_goodbye(self) -> None:
        """Write a close_notify."""
        self._mute = True
        try:
            self._tls.unwrap()
        except ssl.SSLError:  # the client has not said it; or TLS has failed, and its alert said so
            pass
        goodbye = self._bios.outgoing.read()
        if goodbye:
            self._tcp.write(goodbye)
