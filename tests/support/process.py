"""A broker as a subprocess: collects its standard error, notices its end, measures its memory."""

import os
import re
import secrets
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import psutil

from tests.support.forked import ForkedProcess
from tests.support.waiting import wait_until

BELOW_EPHEMERAL = range(10_000, 32_000)
"""Ports from which Linux takes none for outgoing connections (ip_local_port_range begins at 32,768)."""

TROUBLE = re.compile(r'Traceback \(most recent call last\)|was never awaited|never retrieved|[a-z]Warning: |"crash"')
"""What standard error must not hold: an exception that nobody handled, or a warning of Python's."""


class Address(NamedTuple):
    """Where one listener is reached."""

    host: str
    port: int


class BrokerError(Exception):
    """The broker did not start, or ended by itself; the message holds what it printed."""


class BrokerProcess:
    """One running broker; as a context manager it is stopped at the end and must not have printed trouble."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        env: Mapping[str, str] | None = None,
        *,
        forked_on: str = "",
        prepare: str = "",
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start a program, or fork `sluice` with these arguments on a loop, `uvloop` or `asyncio`.

        A fork runs `prepare` before; a program also gets the descriptors `pass_fds`.
        """
        self.listeners: dict[str, Address] = {}
        self.folder = folder
        self._lines: list[str] = []
        self._asked_to_end = False
        self._news = threading.Condition()
        self._process: subprocess.Popen[bytes] | ForkedProcess
        if forked_on:
            self._process = ForkedProcess(forked_on, command, folder, env if env is not None else os.environ, prepare)
        else:
            self._process = subprocess.Popen(
                command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=pass_fds
            )
        assert self._process.stderr is not None
        self._output = self._process.stderr.fileno()
        os.set_blocking(self._output, False)
        self._unfinished = b""
        self._is_read = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def stderr(self) -> str:
        """Everything printed on standard error so far, also before an answer that has just come."""
        with self._news:
            self._take()
            return "".join(self._lines)

    def address(self, listener: str = "tcp") -> Address:
        """Return where a listener is reached."""
        return self.listeners[listener]

    def pids(self) -> list[int]:
        """Return the process and its children, if any."""
        me = psutil.Process(self.pid)
        return [self.pid, *(child.pid for child in me.children(recursive=True))]

    def rss(self) -> int:
        """Return resident memory in bytes, children included."""
        return sum(int(psutil.Process(pid).memory_info().rss) for pid in self.pids())

    def open_files(self) -> int:
        """Return how many file descriptors are open: a count of connections, up to a constant."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def trouble(self) -> list[str]:
        """Return the lines of standard error that no input may cause; empty is good."""
        return [line for line in self.stderr.splitlines() if TROUBLE.search(line)]

    def assert_healthy(self) -> None:
        """Fail if the broker is gone or has printed a traceback or a warning."""
        assert self._process.poll() is None, f"the broker ended with {self._process.poll()}:\n{self.stderr}"
        assert not self.trouble(), self.stderr

    def wait_for_output(self, enough: Callable[[list[str]], bool], what: str, seconds: float = 30.0) -> None:
        """Wait until the lines of standard error satisfy `enough`; raise BrokerError if they never do.

        What counts is the time waited, so that nothing fails because the machine, or all of a run, was stopped.
        """
        waited = 0.0
        with self._news:
            while not enough(self._lines):
                if self._process.poll() is not None and not self._reader.is_alive():
                    code = self._process.returncode
                    raise BrokerError(f"ended with {code} before {what}:\n{''.join(self._lines)}")
                if waited > seconds:
                    raise BrokerError(f"no {what} after {seconds:g} s:\n{''.join(self._lines)}")
                began = time.monotonic()
                self._news.wait(0.1)
                waited += min(time.monotonic() - began, 1.0)

    def wait_until_accepting(self, address: Address, seconds: float = 30.0) -> None:
        """Wait until a TCP connection succeeds, for brokers that do not say that they listen."""

        def accepts() -> bool:
            if self._process.poll() is not None:
                self._reader.join(1)
                raise BrokerError(f"ended with {self._process.returncode} at start:\n{self.stderr}")
            try:
                socket.create_connection(address, timeout=1).close()
            except OSError:
                return False
            return True

        wait_until(accepts, f"accepting connections on {address.host} port {address.port}", seconds)

    def ask_to_end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send the signal that ends the broker. Once: a second one meets a process that is past handling it."""
        self._asked_to_end = True
        if self._process.poll() is None:
            self._process.send_signal(number)

    def stop(self, seconds: float = 15.0) -> int:
        """Ask the broker to end, insist after `seconds`, and return its exit code."""
        if not self._asked_to_end:
            self.ask_to_end()
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._reader.join()
            assert self._process.stderr is not None
            self._process.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None:
            assert not self.trouble(), self.stderr

    def _read(self) -> None:
        readable = select.poll()
        readable.register(self._output, select.POLLIN)
        while not self._is_read:
            readable.poll()
            with self._news:
                self._take()

    def _take(self) -> None:
        """Take what can be read now. The lock is held."""
        while not self._is_read:
            try:
                data = os.read(self._output, 65_536)
            except BlockingIOError:
                return
            self._is_read = not data
            *lines, self._unfinished = (self._unfinished + data).split(b"\n")
            self._lines += [f"{line.decode(errors='replace')}\n" for line in lines]
            if self._is_read and self._unfinished:
                self._lines.append(self._unfinished.decode(errors="replace"))
            self._news.notify_all()


_RETURNED: Final[set[int]] = set()


def free_port() -> int:
    """Return a port that is free on all addresses now, for brokers that cannot take port 0 themselves.

    It is below those that the kernel gives to outgoing connections, so that no test running beside takes it meanwhile.
    None is returned twice: who asks for several uses them together.
    """
    while True:
        port = secrets.choice(BELOW_EPHEMERAL)
        if port in _RETURNED:
            continue
        with suppress(OSError), socket.create_server(("", port)):
            _RETURNED.add(port)
            return port


def clean_environment(**extra: str) -> dict[str, str]:
    """Return this process's environment for a broker that runs in another folder.

    SLUICE_ variables would configure it and are left out; PYTHONPATH is made absolute.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    if path := kept.get("PYTHONPATH"):
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(part).absolute()) for part in path.split(os.pathsep))
    return kept | extra
