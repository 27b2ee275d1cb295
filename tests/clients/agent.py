"""An agent: a small program around one client that executes orders, one JSON object in a line, and answers each.

connect      host, port, version, client_id, clean, expiry, cafile ...: the fields of agents.base.Link
subscribe    filter, qos: answered when the SUBACK is there
publish      topic, payload, qos, retain: answered when it is sent, with QoS 1 and 2 when it is acknowledged
burst        topic, count, size, qos: publish in a loop as the client's user would write it, with the client's
             defaults; when it says that all is sent or acknowledged, disconnect
receive      count, seconds: answer with the first `count` messages, or fewer when for `seconds` nothing has come
disconnect   take leave of the broker

Payloads are in hexadecimal digits. An answer may hold `error`, with the `code` of CONNACK if that was it, and `lost`:
how connections ended that should not have.
"""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.clients.agents.base import Link
from tests.support.cache import ROOT

ANSWER_SECONDS = 30.0
"""Seconds for an answer: longer than an agent waits for a round trip."""

LIFETIME = 600
"""Seconds after which an agent ends in any case."""


class Received(NamedTuple):
    """One message as a client's user sees it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


class AgentError(AssertionError):
    """The client did not do what it was told; the message is the client's."""

    code: int = -1
    """The reason code of MQTT 5 if it says one; -1 if it does not."""


class Agent:
    """A running agent; as a context manager it always ends."""

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._born = time.monotonic()
        self.lost: list[str] = []
        self._process = subprocess.Popen(
            ["timeout", "--signal=KILL", str(LIFETIME), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=os.environ | dict(env or {}),
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_answers, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def fresh(self) -> bool:
        """Whether there is time for another case before it ends."""
        return time.monotonic() - self._born < LIFETIME / 2

    def connect(self, link: Link) -> None:
        """Connect."""
        self._order("connect", **asdict(link))

    def subscribe(self, topic_filter: str, qos: int) -> None:
        """Subscribe and wait for the SUBACK."""
        self._order("subscribe", filter=topic_filter, qos=qos)

    def publish(self, message: Received) -> None:
        """Publish and wait for the acknowledgement, if there is one."""
        topic, payload, qos, retain = message
        self._order("publish", topic=topic, payload=payload.hex(), qos=qos, retain=retain)

    def burst(self, topic: str, count: int, size: int, qos: int, seconds: float) -> None:
        """Publish `count` numbered messages and disconnect; AgentError after `seconds`."""
        self._order("burst", seconds, topic=topic, count=count, size=size, qos=qos)

    def receive(self, count: int, seconds: float) -> list[Received]:
        """Return the next `count` messages, or fewer if none has come for `seconds`."""
        messages = self._order("receive", LIFETIME, count=count, seconds=seconds).get("messages") or []
        return [Received(topic, bytes.fromhex(payload), qos, retain) for topic, payload, qos, retain in messages]

    def disconnect(self) -> None:
        """Disconnect from the broker."""
        self._order("disconnect")

    def kill(self) -> None:
        """End at once, as after a crash: without DISCONNECT."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it, by itself if possible."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(2)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self._signal(signal.SIGKILL)  # and the processes that it has started
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)  # it has a group of its own: start_new_session
        except ProcessLookupError:
            pass

    def _order(self, verb: str, seconds: float = ANSWER_SECONDS, /, **fields: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": verb, **fields}, ensure_ascii=False) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise AgentError(f"{self.name}: {verb} not done after {seconds:g} s{self._said()}") from None
        except BrokenPipeError:
            line = ""
        if not line:
            raise AgentError(f"{self.name}: ended in {verb}{self._said()}")
        answer: dict[str, Any] = json.loads(line)
        self.lost = answer.get("lost") or []
        if error := answer.get("error"):
            failed = AgentError(f"{self.name}: {verb}: {error}{self._said()}")
            failed.code = answer["code"] if isinstance(answer.get("code"), int) else -1
            raise failed
        return answer

    def _said(self) -> str:
        lost = f"; connection lost: {self.lost[0]}" if self.lost else ""
        return lost + (f"; said: {self._errors[-1].strip()}" if self._errors else "")

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.strip():
                self._errors.append(line)
