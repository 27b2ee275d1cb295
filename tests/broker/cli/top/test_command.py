"""`sluice top`: its tables and files, what it makes of hostile names, and how it ends."""

import csv
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from broker.admin.sessions import Sessions
from broker.cli.main import app
from broker.cli.top.csv import as_csv
from broker.cli.top.view import Snapshot, printable, short, size, span, view
from tests.support.broker.events import wait_for_event
from tests.support.broker.rendering import rendered
from tests.support.brokers import start_sluice
from tests.support.process import BrokerProcess, clean_environment
from tests.support.waiting import wait_until
from tests.support.wire import connected

pytestmark = pytest.mark.once

EVIL = "=cmd|'/C calc'!A0\x1b[2J\n\u202e[red]x"
TITLES = ["client", "listener", "version", "state", "mailbox", "mqueue", "bytes", "window", "full", "drops", "patience"]
OPTIONS = ("--sort KEY", "--limit N", "--interval TIME", "--once", "--out FILE", "--socket PATH", "--config FILE")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a socket in its folder, and clients: one is slow, one has been evil in choosing its name."""
    folder = tmp_path_factory.mktemp("top")
    with (
        start_sluice(folder, sections={"admin": {"socket": "a.sock"}}) as running,
        connected(running.address(), 4, client_id="slow") as slow,
        connected(running.address(), 5, client_id=EVIL) as evil,
        connected(running.address(), 5, client_id="sender") as sender,
    ):
        wait_for_event(running, "admin_socket")
        slow.subscribe("t", qos=1)
        evil.subscribe("$share/g/t", qos=1)
        for _ in range(40):
            sender.publish("t", b"x" * 100, 1)
        yield running


@pytest.fixture
def path(broker: BrokerProcess) -> Path:
    """Its socket."""
    return broker.folder / "a.sock"


def invoke(*arguments: object, **env: str) -> tuple[int, str, str]:
    """Run `sluice top` in this process, where there is no terminal: status, standard output, standard error."""
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("SLUICE_")}
    result = CliRunner().invoke(app, ["top", *map(str, arguments)], env={**clean, **env})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def answer(*rows: list[Any], clock_us: int = 0, sort: str = "mqueue") -> dict[str, Any]:
    """What a broker answers, with these rows."""
    return {
        "version": 1,
        "command": "sessions",
        "sort": sort,
        "broker": "node",
        "total": 1000,
        "time_us": 0,
        "clock_us": clock_us,
        "columns": Sessions.columns,
        "rows": list(rows),
    }


def row(name: str = "a", sent: int = 0, full_us: int = 0, started_us: int = 0) -> list[Any]:
    """One row."""
    return [name, "tcp", 5, True, False, 0, 0, 0, 1, 32, full_us, sent, 0, 0, started_us, 0]


# -- once


def test_table(path: Path) -> None:
    """Where there is no terminal, the list is printed once, whole and without colours."""
    status, out, err = invoke("--socket", path)
    assert (status, err) == (0, "")
    head, _, titles, first, *others = out.splitlines()
    assert head.startswith("test  20")
    assert head.endswith("  sessions: 3")
    assert titles.split() == TITLES
    assert first.split()[:8] == ["slow", "tcp", "3.1.1", "online", "0", "8", "800", "32/32"]
    assert len(others) == 2
    assert "\x1b" not in out


def test_limit_and_sort(path: Path) -> None:
    """`--sort` and `--limit` say which rows; the head says so where there are more."""
    _, out, _ = invoke("--socket", path, "--sort", "bytes", "--limit", 1)
    lines = out.splitlines()
    assert lines[0].endswith("  sessions: 3, the first 1 by bytes")
    assert [line.split()[0] for line in lines[3:]] == ["slow"]


def test_groups(path: Path) -> None:
    """`sluice top groups` lists the groups of shared subscriptions."""
    _, out, _ = invoke("groups", "--socket", path)
    _, _, titles, group = out.splitlines()
    assert titles.split() == ["group", "members", "mqueue", "bytes", "drops", "patience"]
    assert group.split() == ["$share/g/t", "1", "8", "800", "0", "0"]


def test_addresses(path: Path) -> None:
    """`sluice top addresses` lists the addresses."""
    _, out, _ = invoke("addresses", "--socket", path)
    titles = out.splitlines()[2].split()
    assert titles == ["address", "policy", "bytes", "limit", "waiting", "parked", "paged", "refused", "drops"]


def test_hostile_name(path: Path) -> None:
    """What a client calls itself is shown as text: no control characters, no markup, no formula."""
    _, out, _ = invoke("--socket", path)
    assert r"=cmd|'/C calc'!A0\x1b[2J\n\u202e[red]x" in out
    _, out, _ = invoke("--socket", path, "--out", "-")
    (found,) = [row["client_id"] for row in csv.DictReader(out.splitlines()) if "cmd" in row["client_id"]]
    assert found == r"'=cmd|'/C calc'!A0\x1b[2J\n\u202e[red]x"


def test_found_by_configuration(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--config` takes the path from the broker's own configuration."""
    monkeypatch.chdir(broker.folder)
    status, out, _ = invoke("-c", broker.folder / "sluice.yaml")
    assert (status, "slow" in out) == (0, True)


@pytest.mark.parametrize("runtime", [True, False])
def test_found_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: bool) -> None:
    """A broker's default socket is found, also from a shell that has another $XDG_RUNTIME_DIR than the broker had."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = tmp_path / "mine"
    mine.mkdir()
    env = {"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(mine) if runtime else ""}
    with start_sluice(tmp_path, sections={"admin": {"socket": "default"}}, env=env) as running:
        wait_for_event(running, "admin_socket")
        status, out, _ = invoke(XDG_RUNTIME_DIR=str(mine), SLUICE_NODE_NAME="test")
        assert (status, "sessions: 0" in out) == (0, True)


# -- CSV


def test_csv_file(path: Path, tmp_path: Path) -> None:
    """`--out` appends to a file, below one line of names, with the time of each row; no table is printed."""
    file = tmp_path / "top.csv"
    for _ in range(2):
        assert invoke("--socket", path, "--out", file) == (0, "", "")
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 6
    (slow, _) = [row for row in rows if row["client_id"] == "slow"]
    assert (slow["broker"], slow["mqueue_len"], slow["connected"], slow["window_len"]) == ("test", "8", "true", "32")
    assert slow["time"].startswith("20")
    assert slow["time"].endswith("+00:00")


def test_csv_of_something_else(path: Path, tmp_path: Path) -> None:
    """A file that is no such list is left as it is."""
    file = tmp_path / "mine.txt"
    file.write_text("mine")
    status, out, err = invoke("--socket", path, "--out", file)
    assert (status, out) == (1, "")
    assert err == f"sluice: {file}: it does not begin as a list of sessions does: write to another file\n"
    assert file.read_text() == "mine"
    invoke("--socket", path, "--out", tmp_path / "sessions.csv")
    assert "as a list of groups does" in invoke("groups", "--socket", path, "--out", tmp_path / "sessions.csv")[2]


def test_csv_cannot_be_written(path: Path, tmp_path: Path) -> None:
    """A file that cannot be written is named, with the reason."""
    status, _, err = invoke("--socket", path, "--out", tmp_path)
    assert (status, err) == (1, f"sluice: {tmp_path}: Is a directory\n")


@pytest.mark.parametrize("arguments", [(), ("--out", "-")])
def test_full_standard_output(path: Path, arguments: tuple[str, ...]) -> None:
    """Standard output on a full disk is an error in words, and no traceback."""
    command = [sys.executable, "-m", "broker", "top", "--once", "--socket", str(path), *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment()
        )
    assert done.returncode == 1
    assert done.stderr == "sluice: standard output takes nothing more: No space left on device\n"


@pytest.mark.parametrize("name", ["=1", "+1", "-1", "@a", "\t=1", "  =1", "＝1", "=1\r\n,2"])
def test_formulas(name: str) -> None:
    """A name that a spreadsheet would take for a formula gets an apostrophe in front; quotes keep it in its cell."""
    (line,) = as_csv(answer(row(name)), head=False).splitlines()
    ((_, _, cell, *rest),) = csv.reader([line])
    assert cell == f"'{printable(name)}" or not cell.lstrip().startswith(tuple("=+-@＝"))
    assert len(rest) == 14
    assert f'"{cell}"' in line


@pytest.mark.parametrize("name", ["a", "a=1", 'a"b', "a;b,c", "ä漢", "10-20"])
def test_other_names(name: str) -> None:
    """Other names are written as they are."""
    ((_, _, cell, *_),) = csv.reader(as_csv(answer(row(name)), head=False).splitlines())
    assert cell == name


# -- what goes wrong


def test_no_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a broker, the command says where it has looked and what would help, and ends with 1."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    status, out, err = invoke(XDG_RUNTIME_DIR=str(runtime), SLUICE_NODE_NAME="node")
    assert (status, out) == (1, "")
    assert f"{runtime}/sluice/node.sock or {tmp_path}/sluice-{os.geteuid()}/node.sock" in err
    assert "--config FILE" in err
    status, out, err = invoke("--socket", tmp_path / "a.sock")
    assert (status, out) == (1, "")
    assert err.startswith(f"sluice: {tmp_path}/a.sock: there is no such socket")


def test_configuration_without_a_socket(tmp_path: Path) -> None:
    """A configuration that has none is said to have none."""
    file = tmp_path / "sluice.yaml"
    file.write_text("admin: {socket: null}\n")
    status, _, err = invoke("-c", file)
    assert (status, err) == (1, "sluice: a broker with this configuration has no admin socket: admin.socket is null\n")


def test_wrong_configuration(tmp_path: Path) -> None:
    """A configuration with mistakes ends with 2, as with all commands."""
    file = tmp_path / "sluice.yaml"
    file.write_text("admin: {sockte: a}\n")
    status, _, err = invoke("-c", file)
    assert status == 2
    assert "admin.sockte" in err


@pytest.mark.parametrize(
    "arguments",
    ["--sort name", "--limit 0", "--limit 1001", "--interval 0.5", "--interval often", "all"],
)
def test_wrong_arguments(arguments: str) -> None:
    """What cannot be is refused with 2 before anybody is asked."""
    status, out, err = invoke(*arguments.split())
    assert (status, out) == (2, "")
    assert err.startswith("Usage: ")


def test_wrong_key_for_the_list(path: Path) -> None:
    """A key that this list does not have ends with 1 and those that it has."""
    status, _, err = invoke("groups", "--sort", "mailbox", "--socket", path)
    assert (status, "write bytes, drops, mqueue or patience" in err) == (1, True)


def test_help() -> None:
    """`top --help` names every option and fits a terminal."""
    status, out, _ = invoke("--help")
    assert status == 0
    for option in OPTIONS:
        assert option in out
    assert max(map(len, out.splitlines())) <= 80


# -- what has happened between two answers


def test_rates() -> None:
    """What has been sent since the last answer is shown by the second, and the share of the time with a full window."""
    before = Snapshot(answer(row(sent=100, full_us=5_000_000), clock_us=10_000_000))
    now = Snapshot(answer(row(sent=500, full_us=6_000_000), clock_us=12_000_000), before)
    assert (now.rows[0]["sent_per_second"], now.rows[0]["full"]) == (200, 0.5)
    assert " 50% " in rendered(view(now, 200), 200)


def test_no_rates_of_another_session() -> None:
    """A session that has begun anew under the same client id is not compared with the one before."""
    before = Snapshot(answer(row(sent=100), clock_us=10_000_000))
    now = Snapshot(answer(row(sent=5, started_us=11_000_000), row("b"), clock_us=12_000_000), before)
    assert not any("sent_per_second" in one for one in now.rows)


def test_the_same_answer_twice() -> None:
    """When the broker has nothing newer, the rates stay as they were."""
    first = Snapshot(answer(row(sent=0), clock_us=1_000_000))
    second = Snapshot(answer(row(sent=10), clock_us=2_000_000), first)
    third = Snapshot(answer(row(sent=10), clock_us=2_000_000), second)
    assert third.rows[0]["sent_per_second"] == 10


# -- tables


@pytest.mark.parametrize("width", [20, 60, 80, 100, 120, 200])
def test_width(width: int) -> None:
    """A table is no wider than the terminal; the columns that it is sorted by go last, names are cut."""
    snapshot = Snapshot(answer(row("x" * 300), row("漢" * 300)))
    lines = rendered(view(snapshot, width), width).splitlines()
    assert max(map(len, lines)) <= width
    if width >= 80:
        for title in ("mailbox", "mqueue", "bytes", "full", "drops", "patience"):
            assert title in lines[2]
        assert "…" in lines[3]


@pytest.mark.parametrize("name", ["\x00", "\x1b[31m", "\x9b2J", "\u202e", "\u200b", "\u2028", "\ud800", "\x7f", "\r\n"])
def test_printable(name: str) -> None:
    """Whatever is no visible character is written as its code."""
    assert printable(name).isprintable()
    assert "\\" in printable(name)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.25, "0.2"), (12.7, "13"), (9_999, "9999"), (10_000, "10.0k"), (123_456, "123k"), (5e9, "5.0G")],
)
def test_short(number: float, text: str) -> None:
    """Numbers take little room."""
    assert short(number) == text


def test_sizes_and_times() -> None:
    """Bytes are counted in powers of 1024, times in the two units that matter most."""
    assert [size(number) for number in (0, 10_000, 10_240, 5 * 2**20)] == ["0", "10000", "10.0Ki", "5.0Mi"]
    seconds = (0, 0.5, 59, 60, 61, 3_599, 3_600, 86_399, 86_400, 10 * 86_400 + 7_200)
    shown = ["0", "0.5s", "59s", "1m00s", "1m01s", "59m59s", "1h00m", "23h59m", "1d00h", "10d02h"]
    assert [span(int(second * 1e6)) for second in seconds] == shown


# -- live


IN_ITS_TERMINAL = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "  # Ctrl-C is a signal only there
    # Who starts the tests in the background has them ignore it, and what they start too.
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from broker.cli.main import main; main()"
)


class Terminal:
    """A terminal in which the command runs."""

    def __init__(self, *arguments: object) -> None:
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-c", IN_ITS_TERMINAL, "top", *map(str, arguments)]
        env = clean_environment(COLUMNS="120", LINES="24", TERM="xterm")
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=env, start_new_session=True
        )
        os.close(theirs)
        self._seen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def seen(self) -> str:
        """All that has been shown."""
        return self._seen.decode(errors="replace")

    def wait_for(self, condition: Callable[[str], bool], what: str) -> None:
        """Wait until what has been shown is enough."""
        wait_until(lambda: condition(self.seen), f"{what}: {self.seen[-2000:]!r}", 20)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def end(self) -> tuple[int, str]:
        """Wait for the command's end; returns its status and what it has written to standard error."""
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            err = stream.read().decode()
        status = self.process.wait(20)
        self._reader.join()
        assert termios.tcgetattr(self._ours)[3] & termios.ECHO, "what is typed is not shown any more"
        os.close(self._ours)
        return status, err

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 65536):
                self._seen += data
        except OSError:
            pass  # the command has ended


ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def terminal(path: Path) -> Iterator[Terminal]:
    """The live list, on the screen already."""
    terminal = Terminal("--socket", path, "--interval", "1s")
    try:
        terminal.wait_for(lambda seen: "slow" in seen, "the list")
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()


@pytest.mark.parametrize("way", ["q", "\x03", signal.SIGINT, signal.SIGTERM])
def test_ends_quietly(terminal: Terminal, way: str | signal.Signals) -> None:
    """q, Ctrl-C and SIGTERM end the live list without a word, and leave the terminal as it was."""
    assert ENTER in terminal.seen
    if isinstance(way, str):
        terminal.type(way)
    else:
        terminal.process.send_signal(way)
    status, err = terminal.end()
    assert (status, err) == (143 if way is signal.SIGTERM else 0, "")
    assert terminal.seen.rstrip().endswith(LEAVE)


def test_updates_and_sorts(terminal: Terminal) -> None:
    """The list is shown again and again, with rates; s sorts it by the next key."""
    terminal.wait_for(lambda seen: seen.count("slow") >= 2, "an update")
    terminal.type("s")
    terminal.wait_for(lambda seen: "\x1b[1;7m  bytes" in seen, "sorted by bytes")
    terminal.type("q")
    assert terminal.end() == (0, "")


def test_live_csv(path: Path, tmp_path: Path) -> None:
    """While the list is shown, each update goes to the file too."""
    file = tmp_path / "live.csv"
    terminal = Terminal("--socket", path, "--interval", "1s", "--out", file)
    wait_until(lambda: file.exists() and len(set(times(file))) >= 2, "two updates", 20)
    terminal.type("q")
    assert terminal.end() == (0, "")


def times(file: Path) -> list[str]:
    """The times of a file's rows."""
    with file.open(newline="") as opened:
        return [row["time"] for row in csv.DictReader(opened)]


def test_once_in_a_terminal(path: Path) -> None:
    """`--once` prints the list and ends, in a terminal too."""
    terminal = Terminal("--socket", path, "--once")
    assert terminal.end() == (0, "")
    assert "slow" in terminal.seen
    assert ENTER not in terminal.seen


def test_the_broker_goes(tmp_path: Path) -> None:
    """When the broker ends, so does the list, and says why."""
    with start_sluice(tmp_path, sections={"admin": {"socket": "a.sock"}}) as running:
        wait_for_event(running, "admin_socket")
        terminal = Terminal("--socket", tmp_path / "a.sock", "--interval", "1s")
        terminal.wait_for(lambda seen: "sessions: 0" in seen, "the list")
    status, err = terminal.end()
    assert (status, err) == (1, f"sluice: {tmp_path}/a.sock: the broker has gone\n")
    assert terminal.seen.rstrip().endswith(LEAVE)


def test_no_screen_without_an_answer(tmp_path: Path) -> None:
    """Where there is no broker, the screen is not touched."""
    terminal = Terminal("--socket", tmp_path / "a.sock")
    status, err = terminal.end()
    assert (status, "there is no such socket" in err) == (1, True)
    assert ENTER not in terminal.seen
