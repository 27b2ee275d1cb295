"""`sluice import mosquitto` with a persistence file of Mosquitto's own: clients get what Mosquitto would send."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from broker.cli.main import app
from protocol.acknowledgements import Pubrec
from protocol.publish import Publish
from tests.support.broker.moving import PASSWORD, STORIES, Story, Watch, back, entered
from tests.support.broker.real_clients import Paho
from tests.support.brokers import HOST, find_mosquitto
from tests.support.process import Address, BrokerProcess, clean_environment, free_port
from tests.support.waiting import wait_until
from tests.support.wire import connected

pytestmark = [pytest.mark.once, pytest.mark.skipif(find_mosquitto() is None, reason="needs Mosquitto")]


class Move:
    """A configuration of Mosquitto with persistence, and the same imported."""

    def __init__(self, folder: Path, lines: str = "") -> None:
        self.folder = folder
        self.address = Address(HOST, free_port())
        self.file = folder / "mosquitto.conf"
        self.database = folder / "state" / "mosquitto.db"
        self.database.parent.mkdir()
        self.output = folder / "sluice.yaml"
        self.journal = folder / "sluice" / "journal"
        text = f"user root\nlistener {self.address.port} {HOST}\nallow_anonymous true\npersistence true\n"
        self.file.write_text(f"{text}persistence_location {folder}/state/\n{lines}\n".replace("FOLDER", str(folder)))

    @contextmanager
    def mosquitto(self) -> Iterator[None]:
        """Mosquitto runs, and writes its file at the end."""
        with BrokerProcess([str(find_mosquitto()), "-c", str(self.file)], self.folder) as process:
            process.wait_until_accepting(self.address)
            self._mosquitto = process.pid
            yield

    def save_now(self) -> None:
        """Mosquitto writes its file while it runs."""
        os.kill(self._mosquitto, signal.SIGUSR1)
        wait_until(self.database.exists, "Mosquitto's file")

    @contextmanager
    def sluice(self) -> Iterator[None]:
        """Sluice runs on what has been imported."""
        environment = clean_environment(XDG_RUNTIME_DIR=str(self.folder))
        arguments = ["run", "--config", str(self.output)]
        with BrokerProcess(arguments, self.folder, environment, forked_on="asyncio") as process:
            process.wait_until_accepting(self.address)
            yield

    def leave(self, story: Story) -> None:
        """Clients leave something behind with Mosquitto, which is stopped."""
        with ExitStack() as clients, self.mosquitto():
            story.leave(self.address, clients)

    def take_over(self, *options: str) -> Result:
        """Import it."""
        return CliRunner().invoke(app, ["import", "mosquitto", str(self.file), "-o", str(self.output), *options])


def has_all(client: Paho) -> bool:
    """Whether 100 messages have come."""
    return len(client.messages) >= 100


def make_users(folder: Path) -> None:
    """Users and rules."""
    (folder / "passwords").touch(mode=0o600)
    for user in ("ann", "ben"):
        subprocess.run(["mosquitto_passwd", "-b", str(folder / "passwords"), user, PASSWORD.decode()], check=True)
    (folder / "acl").write_text(
        "topic readwrite open/#\ntopic write ann/#\ntopic write ben/#\n"
        "user ann\ntopic read ann/#\ntopic read open/#\nuser ben\ntopic read ben/#\n"
    )


@pytest.mark.parametrize("name", STORIES)
def test_clients_get_what_mosquitto_would_send(name: str, tmp_path: Path) -> None:
    """The clients of a Mosquitto that was stopped come back to Sluice, and see what they see with Mosquitto again."""
    make_users(tmp_path)
    story = STORIES[name]
    move = Move(tmp_path, story.lines)
    move.leave(story)
    result = move.take_over()
    assert (result.exit_code, result.stderr) == (0, "")
    assert "sessions" in result.stdout
    with move.mosquitto():
        first = Watch()
        expected = story.come_back(move.address, first)
    with move.sluice():
        assert story.come_back(move.address, Watch(first)) == expected
    checked = CliRunner().invoke(app, ["store", "check", str(move.journal)])
    assert (checked.exit_code, "no damage found" in checked.stdout) == (0, True)
    with move.sluice(), connected(move.address, 5) as client:
        client.expect_nothing_more()


def test_real_clients(tmp_path: Path) -> None:
    """paho's sessions, of both versions, go on where they were."""
    move = Move(tmp_path)
    with move.mosquitto():
        for version in (4, 5):
            with Paho(move.address, version, f"paho{version}", kept=True) as client:
                assert client.subscribe("t/#", qos=2) == [2]
        with Paho(move.address, 5, "publisher") as publisher:
            for number in range(100):
                publisher.publish("t/x", b"%d" % number, qos=1 + number % 2)
    assert move.take_over().exit_code == 0
    with move.sluice():
        for version in (4, 5):
            with Paho(move.address, version, f"paho{version}", kept=True) as client:
                wait_until(partial(has_all, client), "100 messages")
                for qos in (1, 2):  # paho hands on a message of QoS 2 later
                    payloads = [int(message.payload) for message in client.messages if message.qos == qos]
                    assert payloads == list(range(qos - 1, 100, 2))


def test_sessions_without_user_name(tmp_path: Path) -> None:
    """Sessions that Mosquitto has saved under the user of another one go on, under the rules of nobody."""
    make_users(tmp_path)
    move = Move(tmp_path, "password_file FOLDER/passwords\nacl_file FOLDER/acl")
    with move.mosquitto():
        for client_id, user in (("anns", "ann"), ("nobodys", None), ("also-nobodys", None)):
            client, _ = entered(move.address, client_id, 5, user)
            client.subscribe("ann/#", "open/#", qos=1)
            client.disconnect()
    told = move.take_over().stdout
    unknown = "Mosquitto's file does not name" in told  # the file of Mosquitto 2.0.11 does not, later ones do
    assert unknown == ("Mosquitto's file does not name the users of 1 sessions" in told)
    with move.sluice():
        with back(move.address, "anns", 5, "ann") as ann, connected(move.address, 4) as publisher:
            publisher.publish("ann/x", b"secret", 1)
            assert ann.receive_message().topic == b"ann/x"
            publisher.publish("open/x", b"open", 1)
        with back(move.address, "nobodys", 5) as client:
            assert client.receive_message().topic == b"open/x"
            client.expect_nothing_more()
        with back(move.address, "also-nobodys", 5) as client, connected(move.address, 4) as publisher:
            if not unknown:
                assert client.receive_message().topic == b"open/x"
            client.expect_nothing_more()
            publisher.publish("open/y", b"open", 1)
            assert client.receive_message().topic == b"open/y"


def test_what_is_not_taken_over_is_named(tmp_path: Path) -> None:
    """QoS 0 that waits, unreleased messages, and what came after the file was written, are in the output."""
    move = Move(tmp_path, "queue_qos0_messages true")
    with move.mosquitto(), connected(move.address, 4) as publisher:
        reader, _ = entered(move.address, "reader")
        reader.subscribe("t", qos=1)
        reader.disconnect()
        for qos in (0, 1, 0):
            publisher.publish("t", b"x", qos)
        writer, _ = entered(move.address, "writer")
        writer.send(Publish(b"t", b"y", 2, packet_id=5))
        writer.expect(Pubrec)
        move.save_now()
        running = move.take_over()
        writer.close()
    assert (running.exit_code, running.stderr.count("\n")) == (1, 1)
    assert f"{move.database}: Mosquitto has written it while it ran" in running.stderr
    assert "2 waiting messages of QoS 0 are not taken over" in running.stdout
    assert "1 messages of QoS 2 that their publishers have not released" in running.stdout
    assert "Mosquitto does not save shared subscriptions" in running.stdout
    assert "2 sessions, 1 subscriptions, 2 messages that wait, 0 in flight, 0 retained" in running.stdout


def test_never_replaces_a_journal(tmp_path: Path) -> None:
    """A journal stays as it is, also with --force; --without-persistence imports the configuration beside it."""
    move = Move(tmp_path)
    move.leave(STORIES["sessions"])
    assert move.take_over().exit_code == 0
    before = (move.journal / "segment-1").read_bytes()
    again = move.take_over("--force")
    assert (again.exit_code, "segment-1 exists, and a journal is never replaced" in again.stderr) == (2, True)
    without = move.take_over("--force", "--without-persistence")
    assert (without.exit_code, f"{move.database} is not read" in without.stdout) == (0, True)
    assert (move.journal / "segment-1").read_bytes() == before


def test_damage_leaves_nothing(tmp_path: Path) -> None:
    """A file that is cut off is refused with its place and a remedy; there is no configuration and no journal then."""
    move = Move(tmp_path)
    move.leave(STORIES["queues"])
    whole = move.database.read_bytes()
    for content, words in (
        (whole[:-3], "a chunk says 8 bytes, but 5 are left"),
        (b"", "empty"),
        (b"\x7fELF", "byte 0:"),
    ):
        move.database.write_bytes(content)
        result = move.take_over()
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{move.database}: " in result.stderr
        assert words in result.stderr
        assert "--without-persistence" in result.stderr
        assert not move.output.exists()
        assert not move.journal.parent.exists()


def test_no_file_yet(tmp_path: Path) -> None:
    """Without a file only the configuration is imported, and the output says so."""
    move = Move(tmp_path, "persistence_file other.db")
    result = move.take_over()
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"{tmp_path}/state/other.db: there is no such file, so no sessions are imported" in result.stdout
    assert not move.journal.exists()


def test_configuration_that_is_refused(tmp_path: Path) -> None:
    """Where the configuration cannot be written, there is no journal either."""
    move = Move(tmp_path)
    move.leave(STORIES["sessions"])
    move.file.write_text(f"{move.file.read_text()}listener {move.address.port} {HOST}\n")
    assert move.take_over().exit_code == 2
    assert not move.journal.parent.exists()


def test_bridges(tmp_path: Path) -> None:
    """What waits for another broker behind a bridge is not taken over, and the output says so."""
    move = Move(tmp_path, f"connection up\naddress {HOST}:9\ntopic # out 1\ncleansession false")
    with move.mosquitto(), connected(move.address, 4) as publisher:
        for _ in range(3):
            publisher.publish("t", b"x", 1)
    result = move.take_over()
    assert (result.exit_code, result.stderr) == (0, "")
    assert "1 sessions, for which 3 messages waited, are left out" in result.stdout
    assert "0 sessions, 0 subscriptions" in result.stdout
