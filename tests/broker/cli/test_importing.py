"""`sluice import mosquitto`: what it takes over, what it says about the rest, and what it never does."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import config
from broker.cli.main import app
from tests.support.certificates import make_certificates, write_revocations
from tests.support.mosquitto_configs import GUARDED, SOUND, WRONG

pytestmark = pytest.mark.once

HASH = "$7$101$MTIzNDU2Nzg5MDEy$" + "A" * 86 + "=="


def import_from(*arguments: object) -> tuple[int, str, str]:
    """Run `sluice import mosquitto` in this process: status, standard output, standard error."""
    result = CliRunner().invoke(app, ["import", "mosquitto", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that configurations name."""
    made = tmp_path_factory.mktemp("mosquitto")
    make_certificates(made)
    write_revocations(made / "crl.pem")
    (made / "passwords").write_text(f"ann:{HASH}\n")
    (made / "acl").write_text("topic readwrite a/#\nuser ann\ntopic read b/#\npattern write c/%u/#\n")
    (made / "others").write_text(f"ben:{HASH}\n")
    (made / "tight").write_text("topic read a/#\n")
    return made


def written(folder: Path, tmp_path: Path, text: str) -> Path:
    """A configuration file with these lines."""
    file = tmp_path / "mosquitto.conf"
    text = text.replace("PORT", "1883").replace("OTHER", "1884").replace("FOLDER", str(folder))
    file.write_text(f"# a comment\n\n{text}\n")
    return file


@pytest.mark.parametrize("about", SOUND)
def test_own_configurations(folder: Path, tmp_path: Path, about: str) -> None:
    """What Mosquitto's own examples and tests configure is imported whole, valid, and each line is accounted for."""
    file = written(folder, tmp_path, SOUND[about])
    output = tmp_path / "sluice.yaml"
    status, _, err = import_from(file, "--output", output)
    assert (status, err) == (0, "")
    assert passed_over(file, output) == []


def passed_over(file: Path, output: Path) -> list[str]:
    """The lines of which the result, which has to be valid and without secrets, says nothing."""
    assert config.check(output) == []
    text = output.read_text()
    assert "secret-word" not in text
    assert "deadbeef" not in text
    lines = enumerate(file.read_text().splitlines(), 1)
    return [line for number, line in lines if line and line[0] != "#" and f"{file}:{number} " not in text]


@pytest.mark.parametrize("about", GUARDED)
def test_what_decides_about_access(folder: Path, tmp_path: Path, about: str) -> None:
    """A line about access that has no counterpart is printed, and the exit status says so; the rest is taken over."""
    text, told = GUARDED[about]
    file = written(folder, tmp_path, text)
    output = tmp_path / "sluice.yaml"
    status, _, err = import_from(file, "--output", output)
    assert status == 1
    assert sorted(re.findall(rf"^ *{file}:[0-9]+ ([a-z0-9_]+)", err, re.MULTILINE)) == sorted(told)
    assert passed_over(file, output) == []
    ports = [str(each.bind) for each in config.load(output, environ={}).config.listeners]
    left_out = {"PSK", "interface", "address and interface", "authorities in a directory", "certificate without key"}
    left_out.add("cafile that is not there")
    assert any("1884" in port for port in ports) == ("OTHER" in text and about not in left_out)


def test_only_pre_shared_keys(tmp_path: Path) -> None:
    """Without another listener nothing is written, and it is said why."""
    file = tmp_path / "mosquitto.conf"
    file.write_text("listener 8883\npsk_hint hint\npsk_file keys\nallow_anonymous true\n")
    status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
    assert (status, "no listener is left" in err, f"{file}:2 psk_hint" in err) == (2, True, True)
    assert [each.name for each in tmp_path.iterdir()] == ["mosquitto.conf"]


def test_interface(tmp_path: Path) -> None:
    """A listener of an interface is on its address, not on all."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text("listener 1884\nbind_interface lo\nlistener 1885\nbind_interface lo\nsocket_domain ipv6\n")
    assert import_from(file, "-o", output)[0] == 0
    listeners = yaml.safe_load(output.read_text())["listeners"]
    assert [each["bind"] for each in listeners] == ["127.0.0.1:1884", "[::1]:1885"]


def test_there_are_fifty() -> None:
    """Fifty and more configurations are tried."""
    assert len(SOUND) >= 50


@pytest.mark.parametrize("line", WRONG)
def test_wrong_lines(tmp_path: Path, line: str) -> None:
    """With a line that Mosquitto does not take nothing is written; it is named with file and line and what is wrong."""
    file = tmp_path / "mosquitto.conf"
    file.write_text(f"max_queued_messages 7\n{line}\n")
    status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
    told, place = err.splitlines()[1], f"{file}:{2 + line.count(chr(10))} "
    assert (status, told.startswith(place), told.isprintable()) == (2, True, True)
    assert WRONG[line] in told
    assert [each.name for each in tmp_path.iterdir()] == ["mosquitto.conf"]


@pytest.mark.parametrize(("line", "limit"), [("", 0), ("max_queued_bytes 100", 100), ("max_queued_bytes 0", 0)])
def test_no_limit_in_bytes(tmp_path: Path, line: str, limit: int) -> None:
    """FC-5: without max_queued_bytes Mosquitto's queues have no limit in bytes, where our default is one."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text(f"listener 1883 127.0.0.1\nallow_anonymous true\n{line}\n")
    assert import_from(file, "-o", output)[0] == 0
    assert config.load(output, environ={}).config.session.max_mqueue_bytes == limit


def test_directory_with_includes(tmp_path: Path) -> None:
    """A directory is read with its include_dir, in Mosquitto's order; each line is named with its own file."""
    for name, text in (
        ("mosquitto.conf", "sys_interval 1\ninclude_dir conf.d"),
        ("conf.d/b.conf", "max_keepalive 20"),
        ("conf.d/A.conf", "max_keepalive 10"),
        ("conf.d/a.conf", "max_keepalive 15\ninclude_dir /etc"),
        ("conf.d/c.txt", "max_keepalive 1"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    output = tmp_path / "sluice.yaml"
    status, out, err = import_from(tmp_path, "-o", output)
    assert (status, err) == (0, "")
    assert f"{tmp_path}/conf.d/a.conf:2 include_dir /etc: Mosquitto reads it in the first file only" in out
    mqtt = yaml.safe_load(output.read_text())["mqtt"]
    assert (mqtt["server_keep_alive"], mqtt["sys_interval"]) == ("20s", "1s")


def test_never_overwrites(tmp_path: Path) -> None:
    """A file that exists stays as it is, unless --force is given; nothing else is left behind."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text("port 1999\nallow_anonymous true\n")
    output.write_text("precious")
    status, _, err = import_from(file, "-o", output)
    assert (status, output.read_text()) == (2, "precious")
    assert "exists" in err
    assert import_from(file, "-o", output, "--force")[0] == 0
    assert "1999" in output.read_text()
    assert {each.name for each in tmp_path.iterdir()} == {"mosquitto.conf", "sluice.yaml"}


def test_invalid_result_is_not_written(tmp_path: Path) -> None:
    """What would not be a valid configuration is not written, and the mistake is named with Mosquitto's line."""
    file = tmp_path / "mosquitto.conf"
    file.write_text("allow_anonymous true\nlistener 1883\nlistener 1883\n")
    status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
    assert status == 2
    assert f"{file}:3 listener 1883: found '0.0.0.0:1883'" in err
    assert [each.name for each in tmp_path.iterdir()] == ["mosquitto.conf"]


def test_nobody_is_let_in(tmp_path: Path) -> None:
    """If Mosquitto lets nobody in, neither does the result: it has a file of users, without any."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text("listener 1883\n")
    status, out, _ = import_from(file, "-o", output)
    users = tmp_path / "sluice-users"
    assert (status, users.read_text(), users.stat().st_mode & 0o777) == (0, "", 0o600)
    assert f"sluice user add NAME --file {users}" in out
    loaded = config.load(output, environ={}).config
    assert (loaded.allow_anonymous, loaded.authentication.password_file) == (False, users)


def test_files_that_cannot_be_used(folder: Path, tmp_path: Path) -> None:
    """Files that are missing, and lines of password files that Sluice cannot use, are named; it is written."""
    (tmp_path / "passwords").write_text(f"ann:{HASH}\nben:plain\n")
    file = tmp_path / "mosquitto.conf"
    file.write_text("listener 8883\ncertfile gone.pem\nkeyfile gone.key\npassword_file passwords\nacl_file gone\n")
    status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
    assert status == 1
    assert f"{file}:2 certfile gone.pem: there is no file" in err
    assert f"{file}:5 acl_file gone: there is no file" in err
    assert f"{tmp_path}/passwords:2: the password is not a hash" in err
    assert (tmp_path / "sluice.yaml").exists()


def test_mistakes_in_rules(tmp_path: Path) -> None:
    """With an ACL file that Mosquitto does not take nothing is written, and its line is named."""
    (tmp_path / "acl").write_text("topic read a/#\ntopic sing b/#\n")
    (tmp_path / "mosquitto.conf").write_text("listener 1884\nallow_anonymous true\nacl_file acl\n")
    status, _, err = import_from(tmp_path, "-o", tmp_path / "sluice.yaml")
    assert (status, f"{tmp_path}/acl: line 2: found 'sing'" in err) == (2, True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["acl", "mosquitto.conf"]


@pytest.mark.parametrize("content", [b"\0\1", b"x" * 2_000_000, None])
def test_unreadable(tmp_path: Path, content: bytes | None) -> None:
    """What is no configuration at all is refused."""
    file = tmp_path / "mosquitto.conf"
    if content is not None:
        file.write_bytes(content)
    status, _, err = import_from(file, "-o", tmp_path / "sluice.yaml")
    assert (status, str(file) in err) == (2, True)
    assert import_from(tmp_path / "none", "-o", tmp_path / "sluice.yaml")[0] == 2


def test_memory_limit(tmp_path: Path) -> None:
    """The result says what a limit of memory means in Sluice."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text("listener 1884\nmemory_limit 50000000\n")
    assert import_from(file, "-o", output)[0] == 0
    assert f"# {file}:2 memory_limit 50000000: memory_watermark is about the resident memory" in output.read_text()


def test_not_text(tmp_path: Path) -> None:
    """A byte that no text has is named with its place."""
    file = tmp_path / "mosquitto.conf"
    file.write_bytes(b"listener 1884\nuser \0\n")
    assert f"{file}: line 2: byte 19 is 0" in import_from(file, "-o", tmp_path / "sluice.yaml")[2]


def test_missing_folder(tmp_path: Path) -> None:
    """A folder that is missing is named."""
    file = tmp_path / "mosquitto.conf"
    file.write_text("listener 1884\n")
    status, _, err = import_from(file, "-o", tmp_path / "none" / "sluice.yaml")
    assert (status, err.startswith(f"sluice: there is no folder {tmp_path}/none: ")) == (2, True)


def test_output_is_a_folder(tmp_path: Path) -> None:
    """A folder is refused as output, also with --force, and nothing is left in it or beside it."""
    file, folder = tmp_path / "mosquitto.conf", tmp_path / "folder"
    file.write_text("listener 1884\n")
    folder.mkdir()
    status, _, err = import_from(file, "-o", folder, "--force")
    assert (status, err.startswith(f"sluice: {folder} is a folder: ")) == (2, True)
    assert sorted(tmp_path.iterdir()) == [folder, file]


def test_help_has_an_example() -> None:
    """`--help` shows how to call it."""
    assert "Example: sluice import mosquitto /etc/mosquitto" in import_from("--help")[1]


@pytest.mark.parametrize("wide", [80, 120])
def test_help_of_the_group(monkeypatch: pytest.MonkeyPatch, wide: int) -> None:
    """`sluice import --help` says what each command does, in whole sentences."""
    monkeypatch.setenv("COLUMNS", str(wide))
    text = CliRunner().invoke(app, ["import", "--help"]).stdout
    assert "Take over mosquitto.conf and mosquitto.db." in text
    assert "..." not in text.replace("ARGS]...", "")
