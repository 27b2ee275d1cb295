"""A service of the operator's decides about logins: `authentication.http`.

It gets each login as a JSON object by POST. 200 lets the client in, and may have a `UserGrant` as JSON; 401 and 403
refuse it; 204 is for users whom it does not know. Anything else, or none in time, is a failure: nobody is let in.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from broker.auth.authenticators.answer_cache import AnswerCache
from broker.auth.authenticators.authenticator import Answer, Login, No
from broker.auth.authenticators.grant import parse
from broker.auth.authenticators.outage import Outage
from broker.auth.authenticators.slots import Slots
from broker.auth.watched_file import WatchedFile
from config.http import Http
from config.urls import masked_in

SOURCE: Final = "http"

MOST_BYTES: Final = 65_536
"""The longest answer that is read."""

_REFUSED: Final = (401, 403)

_PLAIN: Final = {"Accept-Encoding": "identity"}
"""An encoded answer that is cut off can look like a shorter one, such as the empty one that lets in without limits."""


class HttpAuthenticator:
    """Asks the service."""

    name = f"authentication.{SOURCE}"
    asked_about_nameless = True

    def __init__(self, own: Http) -> None:
        """Read the files. Raises OSError."""
        self._own = own
        self._tls = ssl.create_default_context(cafile=own.cafile)
        self._cache = AnswerCache(own.cache_size, own.cache_time, time.monotonic)
        self._slots = Slots(own.max_requests)
        self._outage = Outage(self.name)
        self._session: aiohttp.ClientSession | None = None
        self._secret = ""
        self.files: list[WatchedFile[Any]] = []
        """What has to be read again when it changes."""
        self.jobs: list[Callable[[], Coroutine[Any, Any, None]]] = [self._close_at_end]
        """What has to run beside the broker."""
        if own.header_file is not None:
            self._follow(own.header_file)

    async def authenticate(self, login: Login) -> Answer:
        """Return who it is. Raises Busy and Unavailable."""
        body = _body(login)
        if body is None:
            return No.NOT_MINE
        key = self._cache.key(login)
        answer = self._cache.get(key)
        if answer is None:
            async with self._slots.of(login.network):
                answer = await self._ask(body, login.username)
            self._cache.put(key, answer)
        return answer

    async def _ask(self, body: dict[str, str | None], username: str) -> Answer:
        """Raises Unavailable."""
        try:
            async with asyncio.timeout(self._own.timeout):
                status, content = await self._post(body)
            answer = _read(status, content, username)
        except TimeoutError:
            self._outage.failed(f"no answer within {self._own.timeout:g} s")
        except (aiohttp.ClientError, OSError) as error:
            self._outage.failed(masked_in(f"{type(error).__name__}: {error}", self._own.url)[:500])
        except ValueError as error:
            self._outage.failed(f"an answer with mistakes: {error}"[:500])
        self._outage.over()
        return answer

    async def _post(self, body: dict[str, str | None]) -> tuple[int, bytes]:
        """Ask, once more if the service has closed the connection meanwhile: it does when it is idle."""
        try:
            return await self._post_once(body)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await self._post_once(body)

    async def _post_once(self, body: dict[str, str | None]) -> tuple[int, bytes]:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=self._own.max_requests, ssl=self._tls)
            # No limit of its own: `timeout` is for everything. No cookies: logins have nothing to do with each other.
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        headers = _PLAIN | ({self._own.header: self._secret} if self._secret else {})
        # An answer must not lead to another address, which need not be safe.
        async with self._session.post(self._own.url, json=body, headers=headers, allow_redirects=False) as response:
            _check_end(response)
            content = b""
            async for chunk in response.content.iter_chunked(MOST_BYTES):
                content += chunk
                if len(content) > MOST_BYTES:
                    raise ValueError(f"an answer of more than {MOST_BYTES} bytes")
            return response.status, content

    def _follow(self, path: Path) -> None:
        file = WatchedFile({f"{self.name}.header_file": path}, partial(_read_secret, path), self._use_secret)
        self._use_secret(file.read())
        self.files.append(file)

    def _use_secret(self, secret: str) -> None:
        self._secret = secret

    async def _close_at_end(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            if self._session is not None:
                await self._session.close()


def _body(login: Login) -> dict[str, str | None] | None:
    """What the service gets; None for a password that JSON cannot hold."""
    try:
        password = None if login.password is None else login.password.decode()
    except UnicodeDecodeError:
        return None
    return {
        "client_id": login.client_id,
        "username": login.username,
        "password": password,
        "ip_address": login.host,
        "listener": login.listener,
        "common_name": login.common_name,
    }


def _check_end(response: aiohttp.ClientResponse) -> None:
    """Raise ValueError for an answer that lets in and could be the beginning of a longer one."""
    if response.status != 200:
        return
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise ValueError(f"Content-Encoding {encoding!r:.80}; expected none, as Accept-Encoding says")
    chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
    if response.content_length is None and not chunked:
        raise ValueError("neither Content-Length nor chunks: whether the answer is whole cannot be told")


def _read(status: int, content: bytes, username: str) -> Answer:
    """What an answer means. Raises ValueError if it means nothing."""
    if status in _REFUSED:
        return No.DENIED
    if status == 204:
        return No.NOT_MINE
    if status != 200:
        raise ValueError(f"status {status}; expected 200, 204, 401 or 403")
    return parse(content).identity(username, SOURCE)


def _read_secret(path: Path) -> str:
    """The value of a header. Raises OSError, ValueError; no message quotes it."""
    try:
        secret = path.read_bytes().decode("ascii").strip()
    except UnicodeDecodeError:
        raise ValueError("other characters than those of ASCII") from None
    if not secret or not secret.isprintable():
        raise ValueError("expected one line, the value of the header")
    return secret
