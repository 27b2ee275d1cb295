"""Shared by the agents in Python: the loop over the orders, and the received messages."""

import asyncio
import inspect
import json
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

POLL = 0.01
"""Seconds between two checks for messages."""

PATH = "/mqtt"
"""The path of WebSocket."""

RETURN_CODES = {1: 0x84, 2: 0x85, 3: 0x88, 4: 0x86, 5: 0x87}
"""Return codes of 3.1.1, and reason codes of MQTT 5 with the same meaning."""

CALM = 20.0
"""Seconds for one round trip of a client."""


@dataclass(frozen=True)
class Link:
    """How a client is to connect: the fields of the order `connect`.

    `filter` is what its session is subscribed to already, for those that must know it to take what has been kept.
    """

    host: str
    port: int
    version: int
    client_id: str
    clean: bool = True
    expiry: int = 0
    cafile: str = ""
    certfile: str = ""
    keyfile: str = ""
    filter: str = ""
    will_topic: str = ""
    will_payload: str = ""
    will_qos: int = 0
    will_retain: bool = False
    username: str = ""
    password: str = ""
    websocket: bool = False
    scram: bool = False
    """Whether user name and password are for SCRAM-SHA-256, by AUTH."""

    @property
    def will(self) -> bytes:
        """The payload of the will."""
        return bytes.fromhex(self.will_payload)

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context, None for plain TCP."""
        if not self.cafile:
            return None
        made = ssl.create_default_context(cafile=self.cafile)
        if self.certfile:
            made.load_cert_chain(self.certfile, self.keyfile)
        return made


class RefusedError(Exception):
    """The broker's answer to CONNECT; `code` is the reason code of MQTT 5, also for what 3.1.1 has in its place."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(f"0x{code:02X} {said}")
        self.code = RETURN_CODES.get(code, code)


def numbered(count: int, size: int) -> Iterator[bytes]:
    """The payloads of a burst: a number of eight digits, padded."""
    for number in range(count):
        yield b"%08d" % number + b"x" * (size - 8)


class Agent:
    """One connection; a client's agent adds connect, subscribe, publish, burst and disconnect."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes, int, bool]] = []
        self.lost: list[str] = []
        self.leaving = False

    def begin(self) -> None:
        """Forget the connection before this one."""
        self.messages, self.lost, self.leaving = [], [], False

    def received(self, topic: str, payload: bytes, qos: int, retain: bool) -> None:
        """Keep a message."""
        self.messages.append((topic, payload, qos, retain))

    def gone(self, why: str) -> None:
        """The connection ended; it counts as lost unless the client has disconnected."""
        if not self.leaving:
            self.lost.append(why)

    async def receive(self, count: int, seconds: float) -> dict[str, Any]:
        """Return the first `count` messages, or fewer if none has come for `seconds`."""
        seen, waited = len(self.messages), 0.0
        while len(self.messages) < count and waited < seconds:
            await asyncio.sleep(POLL)
            waited = 0 if len(self.messages) > seen else waited + POLL
            seen = len(self.messages)
        taken, self.messages = self.messages[:count], self.messages[count:]
        return {"messages": [(topic, payload.hex(), qos, retain) for topic, payload, qos, retain in taken]}


async def _serve(agent: Any) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        verb = order.pop("do")
        try:
            answer = getattr(agent, verb)(**order if verb != "connect" else {"link": Link(**order)})
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # all that a client raises is reported to the test
            answer = {"error": f"{type(error).__name__}: {error}", "code": getattr(error, "code", -1)}
        print(json.dumps({"lost": agent.lost} | (answer or {})), flush=True)


def serve(agent: type[Agent]) -> None:
    """Execute the orders on standard input until it ends, and answer each with one line."""

    async def main() -> None:
        await _serve(agent())

    asyncio.run(main())
