"""The keeper: opens the ports, starts the cells, watches them and starts again those that end.

It serves no client. It keeps the listening sockets, so that clients that connect while a cell starts again wait, and
are not refused.
"""

import asyncio
import signal
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from broker.cluster.cell import Cell
from broker.runtime.os_errors import text_of
from broker.server.activation import passed_on, sockets_named
from broker.server.channel import LIVES, SERVES, send_orders
from broker.server.host_admin import HostAdmin
from broker.server.host_counts import CellQuestions, HostCounts
from broker.server.listening import BACKLOG, open_shared
from broker.server.notify import Notify
from broker.server.unix_socket import OpenSocket, open_unix

STALLED: Final = 3.0
"""Seconds without a sign of life after which operators are told."""
SILENCE: Final = 15.0
"""Seconds without a sign of life after which a cell is killed, and started again."""
FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 5.0
"""Seconds until a cell that has ended is started again: longer each time, unless it has served for a while."""
SERVED: Final = 10.0
"""Seconds of service after which the next wait is short again."""
_CHUNK: Final = 65_536
NEVER_SERVED: Final = 3
"""A cell that ends so often before any has served ends the keeper: the configuration or a port is wrong."""


class Keeper:
    """Runs the cells of one broker."""

    def __init__(self, admin: HostAdmin, command: Sequence[str]) -> None:
        """`command`: starts a cell, with the number of its channel's descriptor appended."""
        self._admin = admin
        self._config = admin.config
        self._command = command
        self._log = structlog.get_logger("sluice")
        self._notify = Notify()
        self._stopping = asyncio.Event()
        self._kept: list[KeptCell] = []
        self.counts = HostCounts(admin.config.authentication.failed_logins)
        """What is counted for all cells."""
        self._unix: list[OpenSocket] = []
        self._status = 0

    async def run(self) -> int:
        """Run until a signal; returns the exit status. Raises OSError if a port cannot be opened."""
        count = self._config.cluster.count
        loop = asyncio.get_running_loop()
        for ending in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(ending, self._stopping.set)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` sets SIG_IGN
            loop.add_signal_handler(signal.SIGHUP, self._pass_on, signal.SIGHUP)
        listeners = self._open(count)
        with tempfile.TemporaryDirectory(prefix="sluice-") as directory:  # nobody else may enter it
            for number in range(1, count + 1):
                cell = Cell(number, count, Path(directory))
                self._kept.append(KeptCell(self, cell, {name: own[number - 1] for name, own in listeners.items()}))
            await self._admin.open(self._kept, self._stopping)
            detail = "several workers are new: broker/cluster/CLUSTER.md says what they do not do yet"
            self._log.warning("cells_start", cells=count, detail=detail)
            tasks = [loop.create_task(each.run()) for each in self._kept]
            telling = loop.create_task(self._tell_ready())
            await self._stopping.wait()
            telling.cancel()
            self._notify.stopping()
            await asyncio.gather(*tasks)
        self._admin.close()
        for opened in self._unix:
            opened.remove()
        self._log.info("cells_stopped", cells=count)
        return self._status

    def _open(self, count: int) -> dict[str, list[list[socket.socket]]]:
        """Sockets of each listener for each cell. Raises OSError, which names the listener.

        The kernel spreads connections over those of a port (SO_REUSEPORT). From a Unix socket, or one of systemd, all
        cells accept.
        """
        opened: dict[str, list[list[socket.socket]]] = {}
        descriptors = passed_on()
        for listener in self._config.listeners:
            address = listener.address
            try:
                if address.host:
                    opened[listener.name] = _open_ports(address.host, address.port, count)
                elif address.path:
                    self._unix.append(open_unix(Path(address.path), int(listener.mode, 8), BACKLOG))
                    opened[listener.name] = [[self._unix[-1].sock]] * count
                else:
                    opened[listener.name] = [sockets_named(address.unit, descriptors)] * count
            except OSError as error:
                why = f"cannot listen on {listener.bind}: {text_of(error)}"
                raise OSError(f"listener {listener.name}: {why}") from error
        return opened

    async def _tell_ready(self) -> None:
        await asyncio.gather(*(each.serves.wait() for each in self._kept))
        await self._admin.show_link()
        self._log.info("cells_serve", cells=len(self._kept))
        self._notify.ready()

    @property
    def command(self) -> Sequence[str]:
        """What starts a cell; the descriptor of its channel follows."""
        return self._command

    @property
    def stopping(self) -> asyncio.Event:
        """Set when all cells have to end."""
        return self._stopping

    def give_up(self, status: int) -> None:
        """A cell cannot start: end, with this exit status."""
        self._status = status
        self._stopping.set()

    def _pass_on(self, number: int) -> None:
        for each in self._kept:
            each.send(number)
        self._admin.reload_soon()


def _open_ports(host: str, port: int, count: int) -> list[list[socket.socket]]:
    """The same port so many times. Raises OSError."""
    first = open_shared(host, port)
    chosen = first[0].getsockname()[1]  # if it was 0: the kernel's choice
    return [first, *(open_shared(host, chosen) for _ in range(count - 1))]


class KeptCell:
    """One cell, and the processes that have been it."""

    def __init__(self, keeper: Keeper, cell: Cell, listeners: dict[str, list[socket.socket]]) -> None:
        self.serves = asyncio.Event()
        self.restarts = 0
        """How often another process has become it."""
        self._heard: float | None = None
        """When the process has given a sign of life; None = it does not serve yet."""
        self._keeper = keeper
        self._cell = cell
        self._listeners = listeners
        self._process: asyncio.subprocess.Process | None = None
        self._log = structlog.get_logger("sluice")

    @property
    def number(self) -> int:
        """From 1 on."""
        return self._cell.number

    @property
    def admin_socket(self) -> Path:
        """Where it answers the keeper."""
        return self._cell.admin_at(self._cell.number)

    @property
    def pid(self) -> int | None:
        """Its process; None = there is none now."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    def trouble(self) -> str:
        """Why it cannot answer now; empty if it can."""
        if self.hangs():
            return f"gives no sign of life: it is killed {SILENCE:g} s after its last one"
        if self._heard is not None:
            return ""
        return "has ended, and is started again" if self.pid is None else "starts"

    def hangs(self) -> bool:
        """Whether it gives no sign of life."""
        return self._heard is not None and asyncio.get_running_loop().time() > self._heard + STALLED

    def send(self, number: int) -> None:
        """Send a signal to the process."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def run(self) -> None:
        """Run the cell until all have to end."""
        keeper, loop = self._keeper, asyncio.get_running_loop()
        wait, failures = FIRST_WAIT, 0
        while not keeper.stopping.is_set():
            began = loop.time()
            try:
                status = await self._run_once()
            except OSError as error:  # no process could be started
                self._log.error("cell_not_started", cell=self._cell.number, detail=text_of(error))
                status = 1
            if keeper.stopping.is_set():
                return
            failures = 0 if self.serves.is_set() else failures + 1
            if failures == NEVER_SERVED:
                keeper.give_up(status if status > 0 else 1)
                return
            wait = FIRST_WAIT if loop.time() - began > SERVED else min(2 * wait, LONGEST_WAIT)
            self._log.error("cell_ended", cell=self._cell.number, status=status, again_in=f"{wait:g} s")
            self.restarts += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(keeper.stopping.wait(), wait)

    async def _run_once(self) -> int:
        """Start a process and wait for its end; returns its exit status, negative for a signal."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        command = [*self._keeper.command, str(theirs.fileno())]
        with ours, theirs:
            process = self._process = await asyncio.create_subprocess_exec(*command, pass_fds=[theirs.fileno()])
            theirs.close()
            with suppress(OSError):  # it has ended
                send_orders(ours, self._cell, self._listeners)
            ours.setblocking(False)
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            questions = CellQuestions(self._keeper.counts, self._cell.number, writer.write)
            watching = asyncio.ensure_future(self._watch(reader, questions))
            stopping = asyncio.ensure_future(self._keeper.stopping.wait())
            ended = asyncio.ensure_future(process.wait())
            await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                self.send(signal.SIGTERM)
            stopping.cancel()
            status = await ended
            watching.cancel()
            questions.end()
            writer.close()
            self._heard = None
        return status

    async def _watch(self, channel: asyncio.StreamReader, questions: CellQuestions) -> None:
        """Hear the cell; kill it if it is silent for too long."""
        loop = asyncio.get_running_loop()
        silence: float | None = None  # to read a journal may take minutes
        rest = b""
        while True:
            try:
                async with asyncio.timeout(silence):
                    heard = await channel.read(_CHUNK)
            except TimeoutError:
                detail = f"no sign of life for {SILENCE:g} s: it is killed"
                self._log.error("cell_hangs", cell=self._cell.number, detail=detail)
                self.send(signal.SIGKILL)
                return
            except OSError:
                return
            if not heard:
                return
            *lines, rest = (rest + heard).split(b"\n")
            silence = SILENCE
            if self._heard is not None:
                self._heard = loop.time()
            for line in lines:
                if line == SERVES:
                    self._heard = loop.time()
                    self.serves.set()
                elif line != LIVES:
                    questions.heard(line)
