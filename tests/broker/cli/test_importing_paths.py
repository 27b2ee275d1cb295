"""`sluice import mosquitto`: files of a container are found beside mosquitto.conf, or where --map says."""

import re
from pathlib import Path

import pytest
import yaml

import config
from tests.broker.cli.test_importing import import_from
from tests.support.broker.logins import fast_hash

pytestmark = pytest.mark.once

LINES = "listener 1883\npassword_file /mosquitto/config/passwd\nacl_file /mosquitto/acl/rules\n"


def laid_out(folder: Path, *names: str) -> None:
    """A user, rules and a configuration, in these places."""
    for name, text in zip(names, (f"ann:{fast_hash('x')}\n", "topic read a\n", LINES), strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    "names",
    [
        ("passwd", "acl/rules", "mosquitto.conf"),
        ("config/passwd", "acl/rules", "config/mosquitto.conf"),
    ],
)
def test_beside_the_configuration(tmp_path: Path, names: tuple[str, str, str]) -> None:
    """Paths of Mosquitto's image are those of the files beside mosquitto.conf, or beside its folder."""
    laid_out(tmp_path, *names)
    output = tmp_path / "sluice.yaml"
    assert import_from(tmp_path / names[2], "-o", output)[0] == 0
    result = yaml.safe_load(output.read_text())
    assert result["authentication"]["password_file"] == str(tmp_path / names[0])
    assert result["authorization"]["acl_file"] == str(tmp_path / names[1])


def test_map(tmp_path: Path) -> None:
    """--map says where folders of a container are; a file that is not there is named by its place here."""
    laid_out(tmp_path, "secrets/passwd", "other/rules", "mosquitto.conf")
    output = tmp_path / "sluice.yaml"
    maps = ["--map", f"/mosquitto/config={tmp_path}/secrets", "--map", f"/mosquitto/acl={tmp_path}/other"]
    assert import_from(tmp_path, "-o", output, *maps)[0] == 0
    assert yaml.safe_load(output.read_text())["authorization"]["acl_file"] == f"{tmp_path}/other/rules"
    (tmp_path / "other" / "rules").unlink()
    status, _, err = import_from(tmp_path, "-o", output, "--force", *maps)
    assert (status, f"there is no file '{tmp_path}/other/rules'" in err) == (1, True)


@pytest.mark.parametrize("wrong", ["/mosquitto", "mosquitto=x", "/mosquitto="])
def test_wrong_map(tmp_path: Path, wrong: str) -> None:
    """What --map cannot mean is named, with an example."""
    laid_out(tmp_path, "passwd", "acl/rules", "mosquitto.conf")
    status, _, err = import_from(tmp_path, "-o", tmp_path / "sluice.yaml", "--map", wrong)
    assert (status, "write FOLDER=HERE" in err) == (2, True)


def test_other_paths_are_not_guessed(tmp_path: Path) -> None:
    """A missing file of another folder is missing, though there is one of its name."""
    (tmp_path / "passwd").write_text("")
    (tmp_path / "mosquitto.conf").write_text("listener 1883\npassword_file /elsewhere/passwd\n")
    status, _, err = import_from(tmp_path, "-o", tmp_path / "sluice.yaml")
    assert (status, "there is no file '/elsewhere/passwd'" in err) == (1, True)


@pytest.mark.parametrize("option", ["password_file", "acl_file"])
def test_missing_files_have_a_remedy(tmp_path: Path, option: str) -> None:
    """`config check` refuses a result that names a file that is not here; what is printed is what mends it."""
    (tmp_path / "mosquitto.conf").write_text(f"listener 1883 127.0.0.1\n{option} /gone/here/names\n")
    output = tmp_path / "sluice.yaml"
    status, _, err = import_from(tmp_path, "-o", output)
    assert (status, [each.path.rpartition(".")[2] for each in config.check(output)]) == (1, [option])
    (arguments,) = re.findall("import again with (.*)=DIR", err)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "names").write_text("")
    status, _, err = import_from(tmp_path, "-o", output, *f"{arguments}={tmp_path}/there".split())
    assert (status, err, config.check(output)) == (0, "", [])


@pytest.mark.parametrize("place", ["mosquitto.db", "data/mosquitto.db"])
def test_database_that_is_passed_over(tmp_path: Path, place: str) -> None:
    """A mosquitto.db that Mosquitto does not read either, as persistence is off, is named."""
    location = f"persistence_location {tmp_path}/data\n" if "/" in place else ""
    (tmp_path / "data").mkdir()
    (tmp_path / place).write_text("x")
    (tmp_path / "mosquitto.conf").write_text(f"listener 1883\nallow_anonymous true\n{location}")
    status, out, _ = import_from(tmp_path, "-o", tmp_path / "sluice.yaml")
    assert (status, f"{tmp_path / place} is passed over: persistence is off" in out) == (0, True)


@pytest.mark.parametrize("found", [True, False])
def test_journal_of_a_container(tmp_path: Path, found: bool) -> None:
    """The journal is beside the folder that persistence_location stands for, else beside the result."""
    (tmp_path / "config").mkdir()
    if found:
        (tmp_path / "data").mkdir()
    file, output = tmp_path / "config" / "mosquitto.conf", tmp_path / "sluice.yaml"
    file.write_text("listener 1883\nallow_anonymous true\npersistence true\npersistence_location /mosquitto/data/\n")
    status, out, _ = import_from(file, "-o", output)
    assert (status, "data/mosquitto.db: there is no such file" in out) == (0, True)
    journal = tmp_path / "sluice" / "journal" if found else tmp_path / "journal"
    assert yaml.safe_load(output.read_text())["persistence"]["directory"] == str(journal)
