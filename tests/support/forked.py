"""Brokers forked from a process that has imported Sluice: importing takes most of the time that a start takes.

A fork server is started with the first broker, and ends with the tests. It has no threads and no state of the tests.
"""

import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Final
from unittest.mock import patch

CHILD: Final = Path(__file__).with_name("forked_child.py")
"""What the fork runs, by its path: the installed Sluice is tested in processes that cannot import tests."""

PRELOADED: Final = [
    "broker.admin.api.load",
    "broker.auth.authenticators.http",
    "broker.auth.authenticators.postgres",
    "broker.auth.authenticators.token",
    "broker.auth.scram",
    "broker.cli.checking",
    "broker.cli.main",
    "broker.server.logs",
    "broker.server.server",
    "broker.telemetry.exporter",
    "pydantic.v1",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.h11_impl",
    "uvloop",
]
"""What `sluice run` imports, those imported by functions too."""


@cache
def installed() -> list[str]:
    """Where a program in another folder finds Sluice, empty if nowhere: `python -m` puts the current folder first."""
    paths = sys.path if sys.flags.safe_path else sys.path[1:]
    found = PathFinder.find_spec("broker", paths)
    return list((found and found.submodule_search_locations) or [])


@cache
def _fork_server() -> ForkServerContext:
    context: ForkServerContext = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    # Else it would find the sources in the current folder before what is installed.
    with patch.dict(os.environ, {"PYTHONSAFEPATH": "1"}):
        ensure_running()
    return context


class ForkedProcess:
    """A broker with the methods of `subprocess.Popen` that are used: `sluice ARGUMENTS`, standard error in a pipe."""

    def __init__(
        self, loop: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], prepare: str = ""
    ) -> None:
        """`prepare`: what the process runs before it becomes a broker."""
        context = _fork_server()
        receiver, sender = context.Pipe(duplex=False)
        given = {
            "loop": loop,
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "stderr": sender,
            "code": installed(),
            "prepare": prepare,
        }
        self._process: BaseProcess = context.Process(
            target=runpy.run_path, args=(str(CHILD), {"given": given}, "__main__"), daemon=True
        )
        self._process.start()
        sender.close()
        self.stderr: IO[bytes] = os.fdopen(os.dup(receiver.fileno()), "rb")
        receiver.close()

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status; minus a signal's number if that ended it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended: the fork server collects it at any moment."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status; raise TimeoutExpired after `timeout` seconds."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("sluice", timeout or 0)
        return self._process.exitcode
