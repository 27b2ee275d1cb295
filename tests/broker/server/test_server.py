"""The server: file descriptors, loops, stopping, and its log."""

import asyncio
import itertools
import json
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from broker.server.server import Server
from config.models import Config
from protocol import reason_codes
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.stuck import stuck_client
from tests.support.process import Address, BrokerProcess, clean_environment
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

Start = Callable[..., BrokerProcess]

WITHOUT_UVLOOP = "import sys; sys.modules['uvloop'] = None; "
SHORT_STOP = "import broker.server.server; broker.server.server.STOP_TIMEOUT = 0.3; "
MAIN = "from broker.cli.main import main; main()"


def patched(code: str) -> tuple[str, ...]:
    """The command of a broker that runs `code` first."""
    return (sys.executable, "-c", code + MAIN)


# -- descriptors


def test_file_limit() -> None:
    """The server raises its limit of file descriptors to the hard limit."""
    code = (
        "import resource as r; hard = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.setrlimit(r.RLIMIT_NOFILE, (100, hard)); "
        "from broker.server.server import raise_file_limit; raise_file_limit(); "
        "print(r.getrlimit(r.RLIMIT_NOFILE)[0] == hard)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


@pytest.mark.parametrize("code", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_out_of_descriptors(start: Start, code: str) -> None:
    """Without free file descriptors the connected clients are served, and new ones as soon as there are some."""
    with start(command=patched(code)) as broker, connected(broker.address(), 5) as client:
        psutil.Process(broker.pid).rlimit(resource.RLIMIT_NOFILE, (40, 40))
        crowd = [socket.create_connection(broker.address()) for _ in range(60)]
        wait_until(lambda: broker.open_files() == 40, "no descriptor is left")
        client.publish("t", b"x", 1)
        for sock in crowd:
            sock.close()
        wait_until(lambda: broker.open_files() < 40, "descriptors are free again")
        with connected(broker.address(), 5) as another:
            another.publish("t", b"x", 1)
        assert len(events(broker, "cannot_accept")) <= 1
        assert events(broker, "crash") == []


# -- loops


def test_without_uvloop(start: Start) -> None:
    """Without uvloop the server runs on asyncio's own loop."""
    with (
        start(command=patched(WITHOUT_UVLOOP)) as broker,
        connected(broker.address(), 5) as subscriber,
        connected(broker.address(), 4) as sender,
    ):
        subscriber.subscribe("t", qos=2)
        sender.publish("t", b"x" * 100_000, 2)
        assert subscriber.receive_message().size == 100_000


# -- stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_graceful_stop(start: Start, number: signal.Signals) -> None:
    """A signal ends the broker with status 0; MQTT 5 clients get the reason, 3.1.1 clients are closed."""
    with (
        start() as broker,
        WireClient(broker.address()) as silent,  # accepted by the time that those after it are answered
        connected(broker.address(), 5) as new,
        connected(broker.address(), 4) as old,
    ):
        broker.ask_to_end(number)
        goodbye = new.expect_close()
        assert isinstance(goodbye, Disconnect)
        assert goodbye.reason_code == reason_codes.SERVER_SHUTTING_DOWN
        assert old.expect_close() is None
        assert silent.expect_close() is None
        assert broker.stop() == 0
        (stopped,) = events(broker, "stopped")
        assert stopped["connections"] == 3


def test_what_is_left_is_sent(start: Start) -> None:
    """Deliveries to a client that reads are written before the DISCONNECT."""
    with start() as broker, connected(broker.address(), 5) as client:
        client.subscribe("t", qos=1)
        client.send(*[Publish(b"t", b"x" * 1000, 1, packet_id=number) for number in range(1, 21)])
        broker.ask_to_end()
        received = []
        try:
            while True:
                received.append(client.receive())
        except ConnectionError:
            pass
        deliveries = [packet for packet in received if isinstance(packet, Publish)]
        answers = len(received) - len(deliveries) - 1
        assert len(deliveries) == answers
        assert isinstance(received[-1], Disconnect)


@pytest.mark.parametrize("code", ["", WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_stop_with_a_stuck_client(start: Start, code: str) -> None:
    """A client that does not read delays the stop no longer than its limit."""
    with start(command=patched(code + SHORT_STOP)) as broker, stuck_client(broker):
        before = time.monotonic()
        assert broker.stop(10) == 0
        assert time.monotonic() - before < 5
        assert events(broker, "stopped")[0]["connections"] >= 1


def test_no_new_clients_while_stopping(start: Start) -> None:
    """A broker that is stopping accepts no connections."""
    with start(command=patched("import broker.server.server; broker.server.server.STOP_TIMEOUT = 60.0; ")) as broker:
        with stuck_client(broker), connected(broker.address(), 5) as other:
            broker.ask_to_end()
            assert isinstance(other.expect_close(), Disconnect)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(broker.address())
        assert broker.stop() == 0


# -- the log


def test_log_without_a_reader(tmp_path: Path) -> None:
    """A broker whose standard error is closed serves its clients, and stops in order."""
    command = [sys.executable, "-m", "broker", "run", "-l", "127.0.0.1:0", "--log-format", "json"]
    process = subprocess.Popen(command, cwd=tmp_path, env=clean_environment(), stderr=subprocess.PIPE)
    assert process.stderr is not None
    listening = next(event for event in map(json.loads, process.stderr) if event["event"] == "listening")
    process.stderr.close()
    address = Address(listening["host"], listening["port"])
    for _ in range(3):
        with WireClient(address, 5) as hostile:
            hostile.send(b"\x00\x00")  # each is worth a line in the log
            hostile.expect_close()
    with connected(address, 5) as client:
        client.publish("t", b"x", 1)
    process.terminate()
    assert process.wait(10) == 0


def test_console_log(tmp_path: Path) -> None:
    """The console format is one line per event, without colours where it is no terminal."""
    command = [sys.executable, "-m", "broker", "run", "-l", "127.0.0.1:0", "--log-format", "console"]
    process = subprocess.Popen(command, cwd=tmp_path, env=clean_environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("listening" in line for line in process.stderr)
    process.terminate()
    _, rest = process.communicate(timeout=10)
    assert "stopped" in rest
    assert "\x1b" not in rest


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_clients_cannot_forge_lines(tmp_path: Path, log_format: str) -> None:
    """Whatever is in a client id, its event stays one line, and nothing in it controls a terminal."""
    flags = ["--log-level", "debug", "--log-format", log_format]
    command = [sys.executable, "-m", "broker", "run", "-l", "127.0.0.1:0", *flags]
    process = subprocess.Popen(command, cwd=tmp_path, env=clean_environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    (listening,) = itertools.islice((line for line in process.stderr if "listening" in line), 1)
    found = re.search(r"port\W+(\d+)", listening)
    assert found is not None
    names = [f"x{bad}[info] forged" for bad in ("\n", "\r", "\x1b[2J", "\x08", "\u2028", "\x85", "\u202e", "=1 event")]
    for name in names:
        with WireClient(Address("127.0.0.1", int(found[1])), 5) as client:
            assert client.connect(name).reason_code == 0
    process.terminate()
    _, rest = process.communicate(timeout=10)
    lines = rest.removesuffix("\n").split("\n")
    assert sum("connected" in line and "disconnected" not in line for line in lines) == len(names)
    assert sum("forged" in line for line in lines) == 2 * len(names)
    assert all(line.isprintable() for line in lines)


async def test_crash_is_a_log_line() -> None:
    """An exception in a callback is logged as an event with its traceback."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(Server(Config())._crashed)
    with capture_logs() as logs:
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)  # a turn of the loop
        for _ in range(2):
            loop.call_exception_handler({"message": "accept", "exception": OSError(24, "Too many open files")})
    assert [log["event"] for log in logs] == ["crash", "cannot_accept"]
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)


def test_tracebacks_forge_no_lines() -> None:
    """What an error quotes of a client is indented and escaped, so that none of it begins a line of the log."""
    code = (
        "import structlog; from broker.server import logs; from config.models import Log; logs.configure(Log())\n"
        "try: raise ValueError('a\\n2026-01-01 [info] audit\\r\\x1b[2J')\n"
        "except ValueError as error: structlog.get_logger().error('crash', exc_info=error)"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=True)
    first, *rest = done.stderr.removesuffix("\n").split("\n")
    assert "crash" in first
    assert "audit" in done.stderr
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


def test_library_warnings_are_log_lines(start: Start) -> None:
    """Log records of asyncio and other libraries, and Python's warnings, have the log's format."""
    code = (
        "import broker.server.server, logging, warnings; run = broker.server.server.Server.run\n"
        "async def talk(server):\n"
        "    logging.getLogger('asyncio').warning('slow %s', 'callback')\n"
        "    warnings.warn('old', FutureWarning)\n"
        "    await run(server)\n"
        "broker.server.server.Server.run = talk\n"
    )
    broker = start(command=patched(code))
    wait_for_event(broker, "library", 2)
    first, second = events(broker, "library")
    assert (first["logger"], first["detail"], first["level"]) == ("asyncio", "slow callback", "warning")
    assert (second["logger"], "old" in second["detail"]) == ("py.warnings", True)
    broker.stop()
    assert all(line.startswith("{") for line in broker.stderr.splitlines())
    broker._lines.clear()  # the fixture would take the warning for trouble
