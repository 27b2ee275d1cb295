"""The admin socket: its path, its rights, and what the broker does if something else is at its path."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from broker.admin.client import AdminError
from broker.admin.client import ask as ask_it
from broker.admin.socket import SocketPlace, default_places, is_trusted, open_socket, place
from broker.server.unix_socket import SocketInUseError
from config.models import Config
from tests.broker.conftest import Start
from tests.support.broker.admin import ask
from tests.support.broker.events import events, wait_for_event
from tests.support.brokers import start_sluice
from tests.support.process import BrokerError, BrokerProcess, clean_environment
from tests.support.waiting import wait_until
from tests.support.wire import connected

pytestmark = pytest.mark.once

DEFAULT = {"admin": {"socket": "default"}}
NOBODY = 65534
CONNECT = "s = socket.socket(socket.AF_UNIX); s.connect({!r}); "

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that other users can reach, which tmp_path is not."""
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def configured(path: Path) -> dict[str, object]:
    """The section that has the socket there."""
    return {"admin": {"socket": str(path)}}


def refusal(folder: Path, path: Path) -> str:
    """What a broker says that ends because it cannot have its socket there."""
    file = folder / "sluice.yaml"
    file.write_text(f"node_name: test\nlisteners: [{{bind: '127.0.0.1:0'}}]\nadmin: {{socket: '{path}'}}\n")
    started = BrokerProcess(["run", "-c", str(file)], folder, clean_environment(), forked_on="uvloop")
    with started as broker, pytest.raises(BrokerError, match="ended with 1 "):
        broker.wait_for_output(lambda _: False, "its end")
    return broker.stderr.splitlines()[-1]


def mode(path: Path) -> int:
    """The permissions of what is there."""
    return stat.S_IMODE(path.lstat().st_mode)


def with_socket(start: Start, sections: Mapping[str, object], **env: str) -> BrokerProcess:
    """A broker that has said where its socket is."""
    broker = start(sections=sections, env=env)
    wait_for_event(broker, "admin_socket")
    return broker


def as_nobody(code: str) -> str:
    """Run `code` as another user; returns what it prints, and its traceback."""
    become = f"import os, socket; os.setgid({NOBODY}); os.setuid({NOBODY}); "
    ran = subprocess.run([sys.executable, "-c", become + code], capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


# -- where it is


def test_in_the_runtime_directory(start: Start, tmp_path: Path) -> None:
    """By default the socket is in $XDG_RUNTIME_DIR/sluice, named after the node, and the log has its path."""
    with with_socket(start, DEFAULT, XDG_RUNTIME_DIR=str(tmp_path)) as broker:
        path = tmp_path / "sluice" / "test.sock"
        assert events(broker, "admin_socket")[0]["path"] == str(path)
        assert ask(path) == []


@pytest.mark.parametrize("runtime", ["", "relative", "/nonexistent"])
def test_in_the_temporary_directory(start: Start, tmp_path: Path, runtime: str) -> None:
    """Without a usable $XDG_RUNTIME_DIR the socket is in a directory of the user in the folder for temporary files."""
    with with_socket(start, DEFAULT, XDG_RUNTIME_DIR=runtime, TMPDIR=str(tmp_path)):
        assert ask(tmp_path / f"sluice-{os.geteuid()}" / "test.sock") == []


@needs_root
def test_runtime_directory_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker does not use an $XDG_RUNTIME_DIR of another user, as `su` leaves it."""
    os.chown(tmp_path, NOBODY, NOBODY)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert not any(path.is_relative_to(tmp_path) for path in default_places("test"))


def test_configured(start: Start, tmp_path: Path) -> None:
    """The broker uses a configured path and creates its directory with rights for the owner only."""
    with with_socket(start, configured(tmp_path / "mine" / "a.sock")):
        assert ask(tmp_path / "mine" / "a.sock") == []
        assert mode(tmp_path / "mine") == 0o700


def test_relative_path(start: Start, tmp_path: Path) -> None:
    """A relative path is relative to the working directory, as all paths of the configuration are."""
    with with_socket(start, configured(Path("a.sock"))):
        assert ask(tmp_path / "a.sock") == []


def test_none(start: Start, tmp_path: Path) -> None:
    """With null there is no socket and no log line about it."""
    with start(sections={"admin": {"socket": None}}, env={"XDG_RUNTIME_DIR": str(tmp_path)}) as broker:
        assert not (tmp_path / "sluice").exists()
        assert [event for event in events(broker) if "admin" in event["event"]] == []
    assert place(Config.model_validate({"admin": {"socket": None}})) is None


def test_removed_at_the_end(tmp_path: Path) -> None:
    """The broker removes its own socket when it stops, and not a file that has replaced it."""
    path = tmp_path / "a.sock"
    with start_sluice(tmp_path, sections=configured(path)) as broker:
        wait_for_event(broker, "admin_socket")
        assert path.is_socket()
    assert not path.exists()
    with start_sluice(tmp_path, sections=configured(path)) as broker:
        wait_for_event(broker, "admin_socket")
        path.unlink()
        path.write_text("mine")
    assert path.read_text() == "mine"


# -- who may open it


def test_only_the_owner(start: Start, tmp_path: Path) -> None:
    """Socket and directory have rights for their owner only, whatever the umask is."""
    before = os.umask(0)
    try:
        with_socket(start, DEFAULT, XDG_RUNTIME_DIR=str(tmp_path))
    finally:
        os.umask(before)
    assert (mode(tmp_path / "sluice"), mode(tmp_path / "sluice" / "test.sock")) == (0o700, 0o600)


@needs_root
def test_other_users_cannot_connect(start: Start, open_folder: Path) -> None:
    """Another user cannot open the socket, even in a directory that is open to all."""
    path = open_folder / "a.sock"
    with_socket(start, configured(path))
    assert "PermissionError" in as_nobody(CONNECT.format(str(path)))


@needs_root
def test_other_users_are_refused(start: Start, open_folder: Path) -> None:
    """The broker refuses another user whom the mode of the socket would let in."""
    path = open_folder / "a.sock"
    broker = with_socket(start, configured(path))
    path.chmod(0o777)
    answer = as_nobody(CONNECT.format(str(path)) + "print(s.recv(1000), s.recv(1))")
    assert f"user {NOBODY} is not allowed to ask" in answer
    assert wait_for_event(broker, "admin_refused")[0]["uid"] == NOBODY


@needs_root
def test_another_user_cannot_fill_the_log(start: Start, open_folder: Path) -> None:
    """Of many refusals a few are logged, and then how many others there were."""
    path = open_folder / "a.sock"
    most, tries = 5, 12
    log = {"level": "info", "format": "json", "max_lines": most}
    broker = with_socket(start, {**configured(path), "log": log})
    path.chmod(0o777)
    loop = f"for _ in range({tries}):\n {CONNECT.format(str(path))}print(s.recv(1000))"
    assert as_nobody(f"exec({loop!r})").count("is not allowed to ask") == tries
    broker.stop()
    left_out = sum(line["left_out"] for line in events(broker, "log_throttled") if line["of"] == "admin_refused")
    assert left_out == tries - len(events(broker, "admin_refused")) > 0


def test_who_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker trusts its own user and root only; where the system does not tell the user, the mode decides."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [is_trusted(uid) for uid in (1000, 0, 1001, None)] == [True, True, False, True]


def test_answers_of_somebody_else_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sluice top` refuses a socket that another user has opened."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("broker.admin.client.peer_uid", lambda _: 1001)
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(path))
        impostor.listen()
        with pytest.raises(AdminError, match="user 1001 answers there"):
            ask_it(path, "/sessions")


# -- what is in its place


def test_stale_socket(tmp_path: Path) -> None:
    """The broker replaces a socket that a killed broker has left."""
    path = tmp_path / "a.sock"
    first = start_sluice(tmp_path, sections=configured(path))
    wait_for_event(first, "admin_socket")
    os.kill(first.pid, signal.SIGKILL)
    first.stop()
    assert path.is_socket()
    with start_sluice(tmp_path, sections=configured(path)) as second:
        wait_for_event(second, "admin_socket")
        assert ask(path) == []


def test_two_brokers(start: Start, tmp_path: Path) -> None:
    """A second broker of the same name logs that the socket is in use, and serves its clients without one."""
    env = {"XDG_RUNTIME_DIR": str(tmp_path)}
    path = tmp_path / "sluice" / "test.sock"
    first = with_socket(start, DEFAULT, **env)
    with connected(first.address(), client_id="of the first"):
        with start(sections=DEFAULT, env=env) as second, connected(second.address(), client_id="of the second"):
            (warning,) = wait_for_event(second, "admin_socket_in_use")
            assert warning["level"] == "warning"
            assert warning["detail"].startswith(f"another broker listens on {path}: sluice ctl, top and dashboard")
            assert [row["client_id"] for row in ask(path)] == ["of the first"]
        assert [row["client_id"] for row in ask(path)] == ["of the first"]


def test_two_brokers_with_a_configured_path(start: Start, tmp_path: Path) -> None:
    """A configured path that another broker uses is an error, as with a listener."""
    path = tmp_path / "a.sock"
    with_socket(start, configured(path))
    assert refusal(tmp_path, path) == f"sluice: admin.socket: cannot listen on {path}: another broker listens on {path}"
    assert ask(path) == []


def unavailable(broker: BrokerProcess) -> str:
    """The warning of a broker that serves without its socket."""
    with connected(broker.address()):
        (warning,) = wait_for_event(broker, "admin_socket_unavailable")
    return str(warning["detail"])


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_directory_of_our_choosing(start: Start, tmp_path: Path, kind: str) -> None:
    """The broker refuses a default directory that others can write to, and serves without a socket."""
    folder = tmp_path / f"sluice-{os.geteuid()}"
    if kind == "open":
        folder.mkdir()
        folder.chmod(0o750)
        wrong = f"{folder} is open to other users (mode 0750): chmod 700 {folder}, or set admin.socket"
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
        wrong = f"{folder} is a symbolic link, not a directory: remove it"
    else:
        folder.write_text("")
        wrong = f"{folder} is a file, not a directory: remove it"
    assert unavailable(start(sections=DEFAULT, env={"XDG_RUNTIME_DIR": "", "TMPDIR": str(tmp_path)})) == wrong


@needs_root
def test_directory_of_somebody_else(start: Start, tmp_path: Path) -> None:
    """The broker refuses a default directory of another user, and serves without a socket."""
    folder = tmp_path / f"sluice-{os.geteuid()}"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    broker = start(sections=DEFAULT, env={"XDG_RUNTIME_DIR": "", "TMPDIR": str(tmp_path)})
    wrong = f"{folder} belongs to user {NOBODY}, not to {os.geteuid()}: remove it, or set admin.socket"
    assert unavailable(broker) == wrong


def test_default_path_too_long(start: Start, tmp_path: Path) -> None:
    """A default path that is too long for a socket is logged, and the broker serves without a socket."""
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    detail = unavailable(start(sections=DEFAULT, env={"XDG_RUNTIME_DIR": str(deep)}))
    assert detail.endswith("bytes, a socket's path at most 107: set admin.socket")


def test_something_else_in_its_place(tmp_path: Path) -> None:
    """The broker names a file, directory or link at a configured path, and leaves it as it is."""
    for name, make in (("file", Path.touch), ("directory", Path.mkdir)):
        path = tmp_path / name
        make(path)
        assert refusal(tmp_path, path).endswith(f"{path} is a {name}, not a socket: remove it")
        assert path.exists()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    assert refusal(tmp_path, link).endswith(f"{link} is a symbolic link, not a socket: remove it")
    assert "Not a directory" in refusal(tmp_path, tmp_path / "file" / "a.sock")
    assert "No such file or directory" in refusal(tmp_path, Path("/nonexistent/deep/a.sock"))


def test_socket_that_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket whose owner accepts no connections at the moment is not stale."""
    monkeypatch.setattr("broker.server.unix_socket.PROBE_TIMEOUT", 0.1)
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        with pytest.raises(SocketInUseError):
            open_socket(SocketPlace(path))
    assert path.is_socket()


def test_brokers_that_start_at_once(tmp_path: Path) -> None:
    """Of several brokers that find the same stale socket one gets it; the others say that it is in use."""
    path = tmp_path / "sluice" / "a.sock"
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    code = (
        "import sys, time; from pathlib import Path\n"
        "from broker.admin.socket import *; from broker.server.unix_socket import SocketInUseError\n"
        "from broker.server import unix_socket as module\n"
        "remove = module.remove_stale\n"
        "module.remove_stale = lambda path: (remove(path), time.sleep(0.3))\n"  # as long as it takes to get it wrong
        "sys.stdin.readline()\n"
        f"try: opened = open_socket(SocketPlace(Path({str(path)!r}), True))\n"
        "except SocketInUseError: print('in use', flush=True)\n"
        "else: print('open', flush=True); sys.stdin.readline()\n"
    )
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    racers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, env=clean_environment(), text=True) for _ in range(5)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    said = [racer.stdout.readline().strip() for racer in racers if racer.stdout is not None]
    for racer in racers:
        racer.communicate("\n", timeout=20)
    assert sorted(said) == ["in use"] * 4 + ["open"]


# -- asking


def test_no_broker(tmp_path: Path) -> None:
    """`sluice top` says what is wrong with a path at which no broker listens."""
    path = tmp_path / "a.sock"
    with pytest.raises(AdminError, match="there is no such socket"):
        ask_it(path, "/sessions")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    with pytest.raises(AdminError, match="no broker listens on it"):
        ask_it(path, "/sessions")
    with pytest.raises(AdminError, match="at most 107"):
        ask_it(tmp_path / ("x" * 200), "/sessions")


@pytest.mark.parametrize(
    "said",
    [b"", b"hello\n", b"[]\n", b"HTTP/1.1 200 OK\r\n\r\n[]", b"HTTP/1.1 200 OK\r\n\r\nhello", b"x" * 100_000],
)
def test_not_a_broker(tmp_path: Path, said: bytes) -> None:
    """`sluice top` refuses answers that are not those of a broker of this version."""
    path = tmp_path / "a.sock"
    code = (
        "import socket; s = socket.socket(socket.AF_UNIX); "
        f"s.bind({str(path)!r}); s.listen(); c, _ = s.accept(); c.recv(999); c.sendall({said!r})"
    )
    with subprocess.Popen([sys.executable, "-c", code]):
        wait_until(lambda: accepts(path), "it listens")
        with pytest.raises(AdminError, match=r"closed the connection|not that of a broker of this version"):
            ask_it(path, "/sessions")


LISTENS = "00010000"
"""The flags of a socket after `listen`: before that, whoever connects is refused."""


def accepts(path: Path) -> bool:
    """Whether somebody listens there, as far as can be seen without connecting."""
    if not Path("/proc/net/unix").exists():
        return path.exists()
    sockets = Path("/proc/net/unix").read_text().splitlines()
    return any(line.endswith(f" {path}") and line.split()[3] == LISTENS for line in sockets)
