"""`sluice import` and files that it cannot reach: it says so in a line for each, without a traceback."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from broker.cli.main import app

pytestmark = pytest.mark.once

NOBODY: Final = 65_534
LONG: Final = "secretword" * 30


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder in which the user may look at nothing, beside which there may be files; root becomes another user."""
    was_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as name:
        folder = Path(name) / "closed"
        folder.mkdir()
        (folder / "a.conf").write_text("max_keepalive 10\n")
        Path(name).chmod(0o777)
        folder.chmod(0)
        if was_root:
            os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            if was_root:
                os.seteuid(0)
            folder.chmod(0o700)


def import_from(*arguments: object) -> tuple[int, str]:
    """Run `sluice import` in this process: status, standard error."""
    result = CliRunner().invoke(app, ["import", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr


def test_long_values(tmp_path: Path) -> None:
    """A value that is too long for the name of a file is none to open, and a secret is not shown."""
    file, output = tmp_path / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text(
        "listener 1884\nconnection c\naddress h\ntopic a\nremote_username u\n"
        f"remote_password {LONG}\nclientid_prefixes x{'y' * 300}\n"
    )
    status, err = import_from("mosquitto", file, "-o", output)
    assert (status, len(err.splitlines())) == (1, 1)
    assert LONG not in err + output.read_text()


@pytest.mark.parametrize("option", ["password_file", "acl_file", "keyfile"])
@pytest.mark.parametrize("value", ["CLOSED/file", LONG])
def test_files_of_mosquitto(closed: Path, option: str, value: str) -> None:
    """A file in a closed folder, or with a name that is too long, is named once; the rest is taken over."""
    file, output = closed.with_name("mosquitto.conf"), closed.with_name("sluice.yaml")
    server = closed.with_name("server.pem")
    server.write_text("-----BEGIN CERTIFICATE-----\n")
    certificate = f"certfile {server}\n" if option == "keyfile" else ""
    file.write_text(f"listener 1884\n{option} {value}\n{certificate}".replace("CLOSED", str(closed)))
    status, err = import_from("mosquitto", file, "-o", output)
    assert (status, output.exists()) == (1, True)
    assert [f"{file}:2 {option} " in line and "cannot be read" in line for line in err.splitlines()] == [True]


def test_include_dir(closed: Path) -> None:
    """Without an include_dir that may not be read nothing is written, as what it sets may be about access."""
    file, output = closed.with_name("mosquitto.conf"), closed.with_name("sluice.yaml")
    file.write_text(f"listener 1884\ninclude_dir {closed}\ninclude_dir {closed}/conf.d\n")
    status, err = import_from("mosquitto", file, "-o", output)
    assert (status, output.exists()) == (2, False)
    assert [line.endswith("Permission denied") for line in err.splitlines()] == [False, True, True]


@pytest.mark.parametrize("broker", ["mosquitto", "emqx"])
def test_closed_folders(closed: Path, broker: str) -> None:
    """A source or a new file in a closed folder is refused in one line that names it."""
    if broker == "emqx":
        pytest.importorskip("pyhocon", reason="needs the extra `emqx`")
    file = closed.with_name(f"{broker}.conf")
    file.write_text("")
    for source, output, named in (
        (closed / "etc", closed.with_name("sluice.yaml"), closed / "etc"),
        (file, closed / "sluice.yaml", closed / "sluice.yaml"),
    ):
        status, err = import_from(broker, source, "--output", output)
        assert (status, len(err.splitlines()), f"{named}" in err) == (2, 1, True)


def test_emqx_includes(closed: Path) -> None:
    """A file that emqx.conf includes and that is missing or may not be read is told, and a comment; the rest counts."""
    pytest.importorskip("pyhocon", reason="needs the extra `emqx`")
    file, output = closed.with_name("emqx.conf"), closed.with_name("sluice.yaml")
    file.write_text('include "closed/a.conf"\ninclude "gone.conf"\nmqtt.max_inflight = 5\n')
    status, err = import_from("emqx", file, "-o", output)
    told = err.splitlines()
    assert (status, len(told)) == (1, 2)
    assert all("perhaps who may log in, is not taken over" in line for line in told)
    assert [f"{closed}/a.conf: Permission denied" in told[0], "gone.conf: No such file" in told[1]] == [True, True]
    text = output.read_text()
    assert ("max_inflight: 5" in text, all(f"# {line}" in text for line in told)) == (True, True)
    file.write_text('include required("gone.conf")\n')
    status, err = import_from("emqx", file, "-o", output, "--force")
    assert (status, "gone.conf: No such file" in err, len(err.splitlines())) == (2, True, 1)
