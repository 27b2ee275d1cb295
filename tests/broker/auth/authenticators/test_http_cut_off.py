"""An answer of a login service that may be the beginning of a longer one."""

import asyncio
import gzip

import pytest
from structlog.testing import capture_logs

from broker.auth.authenticators.authenticator import Unavailable
from tests.support.broker.login_service import LOGIN, asking

pytestmark = pytest.mark.once
pytest.importorskip("aiohttp", reason="needs the extra `http`")

GZIP = gzip.compress(b'{"limits": {"max_inflight": 1}}')
CUT_OFF = {
    "head of gzip": b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\n" + GZIP[:5],
    "nothing of gzip": b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "whole gzip": b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(GZIP) + GZIP,
    "before its length": b"Content-Length: 31\r\n\r\n",
    "between chunks": b"Transfer-Encoding: chunked\r\n\r\n",
    "no length": b"\r\n",
    "no length, closes": b"Connection: close\r\n\r\n",
}


@pytest.mark.parametrize("what", CUT_OFF)
async def test_answers_that_are_cut_off(what: str) -> None:
    """An answer that may be the beginning of a longer one lets nobody in, least of all without limits."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n" + CUT_OFF[what])
        writer.close()

    asked: list[bytes] = []
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/login"
        with capture_logs() as logged:
            async with asking(url) as authenticator:
                with pytest.raises(Unavailable):
                    await authenticator.authenticate(LOGIN)
    assert b"\r\nAccept-Encoding: identity\r\n" in asked[0]
    assert [event["event"] for event in logged] == ["authenticator_failed"]
