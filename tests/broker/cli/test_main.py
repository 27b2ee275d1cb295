"""The command line: what `sluice` prints, and its exit status."""

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from broker import __version__
from broker.cli.main import app
from tests.support.certificates import Certificates
from tests.support.process import clean_environment

pytestmark = pytest.mark.once

SECONDS = 20


def sluice(*arguments: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    command = [sys.executable, "-m", "broker", *arguments]
    environment = clean_environment(**env)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def invoke(*arguments: str) -> tuple[int, str, str]:
    """The same in this process: status, standard output, standard error."""
    result = CliRunner().invoke(app, arguments, env={name: None for name in os.environ if name.startswith("SLUICE_")})
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration file with one value of its own."""
    path = tmp_path / "sluice.yaml"
    path.write_text("session:\n  max_inflight: 7\n")
    return path


# -- config


def test_show(file: Path, tmp_path: Path) -> None:
    """`config show` prints the effective configuration as YAML, each value with its origin."""
    shown = sluice(
        "config", "show", "-c", str(file), "-l", "127.0.0.1:5000", folder=tmp_path, SLUICE_SESSION__RECEIVE_MAXIMUM="9"
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    config = yaml.safe_load(shown.stdout)
    assert (config["session"]["max_inflight"], config["session"]["receive_maximum"]) == (7, 9)
    lines = {line.split(":")[0].strip(): line.partition("#")[2].strip() for line in shown.stdout.splitlines()}
    assert lines["max_inflight"] == f"{file}:2"
    assert lines["receive_maximum"] == "SLUICE_SESSION__RECEIVE_MAXIMUM"
    assert lines["max_mqueue_len"] == "default"
    assert lines["bind"] == "--listen"


def test_check(file: Path, tmp_path: Path) -> None:
    """`config check` accepts a correct file."""
    checked = sluice("config", "check", str(file), folder=tmp_path)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, f"{file}: no mistakes found\n", "")


@pytest.mark.parametrize(
    ("watermark", "metrics", "needed"),
    [("50000000B", False, "96 MiB"), ("96MiB", False, ""), ("159MiB", True, "160 MiB"), ("infinity", True, "")],
)
def test_check_of_the_watermark(tmp_path: Path, watermark: str, metrics: bool, needed: str) -> None:
    """`config check` warns of a watermark that a broker without clients may be above."""
    file = tmp_path / "sluice.yaml"
    file.write_text(f"memory_watermark: {watermark}\n" + f"metrics: {{directory: {tmp_path}}}\n" * metrics)
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert (result.exit_code, result.stdout) == (0, f"{file}: no mistakes found\n")
    assert (needed in result.stderr, bool(result.stderr)) == (True, bool(needed))


def test_check_finds_every_mistake(file: Path, tmp_path: Path) -> None:
    """`config check` reports each mistake on its own line, with its place and path, and ends with 2."""
    file.write_text("session:\n  max_inflght: 7\n  receive_maximum: many\nlog: {level: loud}\n")
    checked = sluice("config", "check", str(file), folder=tmp_path)
    assert (checked.returncode, checked.stdout) == (2, "")
    problems = checked.stderr.splitlines()
    assert len(problems) == 3
    assert problems[0].startswith(f"{file}:2: session.max_inflght: ")
    assert problems[1].startswith(f"{file}:3: session.receive_maximum: ")
    assert problems[2].startswith(f"{file}:4: log.level: ")


@pytest.mark.parametrize(
    ("key", "content", "status", "said"),
    [
        ("authorization: {acl_file: %s}", "allow everything\n", 2, "1: authorization.acl_file: %s: line 1: found "),
        ("authorization: {acl_file: %s}", "topic read a/#\n", 0, ""),
        (
            "authentication: {jwt: {algorithms: [ES256], key_file: %s}}",
            "-----BEGIN PRIVATE KEY-----",
            2,
            "1: authentication.jwt.key_file: %s: a private key; ",
        ),
        ("authentication: {jwt: {algorithms: [ES256], jwks_file: %s}}", "{", 2, "1: authentication.jwt.jwks_file: %s"),
        ("metrics: {directory: %s}", "", 2, "1: metrics.directory: %.0s"),
        ("authentication: {password_file: %s}", "", 0, " warning: authentication.password_file: %s: it has no users: "),
        ("authentication: {password_file: %s}", "a:b\n", 0, " warning: authentication.password_file: %s: line 1: "),
    ],
)
def test_check_of_other_files(tmp_path: Path, key: str, content: str, status: int, said: str) -> None:
    """`config check` reads ACL and password files and keys of tokens, and refuses a file in a directory's place."""
    file, other = tmp_path / "sluice.yaml", tmp_path / "other"
    file.write_text(key % other)
    other.write_text(content)
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert result.exit_code == status, result.stderr
    if said:
        assert f"{file}:{said % other}" in result.stderr
        assert ("which is no directory" in result.stderr) == ("metrics" in key)
    else:
        assert result.stderr == ""


@pytest.mark.parametrize("key", ["rules_file", "acl_file"])
def test_check_names_the_key_of_a_missing_file(tmp_path: Path, key: str) -> None:
    """A file of rules that is not there is told with the line and the key that name it."""
    file = tmp_path / "sluice.yaml"
    file.write_text(f"authorization: {{{key}: nowhere}}\n")
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert (result.exit_code, result.stderr) == (2, f"{file}:1: authorization.{key}: there is no file 'nowhere'\n")


@pytest.mark.parametrize("command", [("config", "check"), ("config", "show", "-c"), ("run", "-c")])
def test_missing_file(command: tuple[str, ...], tmp_path: Path) -> None:
    """A missing file is named; the status is 2."""
    status, out, err = invoke(*command, str(tmp_path / "nowhere.yaml"))
    assert (status, out) == (2, "")
    assert "nowhere.yaml: there is no such file" in err


# -- the command itself


def test_version() -> None:
    """`--version` prints name and version, whether the code is compiled, and the version of Python."""
    status, out, err = invoke("--version")
    assert (status, err) == (0, "")
    python = platform.python_version()
    assert out in {f"sluice {__version__} ({how}, Python {python})\n" for how in ("compiled", "interpreted")}


def test_module_is_the_command(tmp_path: Path) -> None:
    """`python -m broker` is `sluice`, and calls itself so."""
    helped = sluice("--help", folder=tmp_path, COLUMNS="80")
    assert helped.returncode == 0
    assert helped.stdout.startswith("Usage: sluice ")
    for command in ("run", "compact", "report", "config"):
        assert f"\n  {command} " in helped.stdout


def test_help_of_run() -> None:
    """`run --help` names every flag in full, and not the developers' switch."""
    status, out, _ = invoke("run", "--help")
    assert status == 0
    for flag in ("-c, --config FILE", "-l, --listen HOST:PORT", "--node-name NAME", "--metrics-directory DIR"):
        assert flag in out
    for flag in ("--allow-anonymous / --no-allow-anonymous", "--log-level LEVEL", "--log-format FORMAT"):
        assert flag in out
    assert "developer" not in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    "arguments", [("--wrong",), ("run", "--wrong"), ("config", "show", "--wrong"), ("serve",), ("config", "check")]
)
def test_unknown_option(arguments: tuple[str, ...]) -> None:
    """An unknown option ends with 2 and a hint."""
    status, out, err = invoke(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("Usage: ")


def test_no_arguments() -> None:
    """Without arguments the help is printed."""
    _, out, err = invoke()
    assert "Usage: " in out + err


# -- run


def test_wrong_configuration(tmp_path: Path) -> None:
    """Mistakes in flags and variables end `run` with 2, each named as it was written."""
    ran = sluice("run", "-l", "[::]:0", "--log-level", "loud", folder=tmp_path, SLUICE_MQTT__MAX_CONNECTIONS="-1")
    assert (ran.returncode, ran.stdout) == (2, "")
    first, *problems = ran.stderr.splitlines()
    assert first == "sluice: the configuration has 3 mistakes:"
    for name, problem in zip(
        ("--listen: listeners[0].bind", "SLUICE_MQTT__MAX_CONNECTIONS", "--log-level: log.level"),
        sorted(problems, key=lambda line: ("--log" in line, "SLUICE" in line)),
        strict=True,
    ):
        assert problem.startswith(f"  {name}: ")


def test_port_in_use(tmp_path: Path) -> None:
    """A listener that cannot be opened is one more line and status 1; no listener is reported as open."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = sluice("run", "-l", "127.0.0.1:0", "-l", bind, "--log-format", "json", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    started, failed = ran.stderr.splitlines()
    assert "starting" in started
    assert failed.startswith(f"sluice: listener flag2: cannot listen on {bind}: ")
    assert failed.endswith("Address already in use (another program listens there: stop it, or choose another port)")


def test_wrong_key(tmp_path: Path, certificates: Certificates) -> None:
    """A certificate with another certificate's key is a mistake in the configuration: status 2."""
    tls = {"certfile": str(certificates.server.certfile), "keyfile": str(certificates.client.keyfile)}
    (tmp_path / "tls.yaml").write_text(yaml.safe_dump({"listeners": [{"bind": "127.0.0.1:0", "tls": tls}]}))
    ran = sluice("run", "-c", "tls.yaml", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    first, failed = ran.stderr.splitlines()
    assert first == "sluice: the configuration has a mistake:"
    assert failed.startswith("  tls.yaml:4: listeners[0].tls: certificate ")
    assert str(certificates.client.keyfile) in failed


@pytest.mark.parametrize(("command", "needed"),
    [("report", "required: --out"), ("compact", "required: --store"), ("index", "required: --reports")],
)
def test_jobs_are_passed_on(tmp_path: Path, command: str, needed: str) -> None:
    """`report` and `compact` pass their arguments to the Spark job's command, and return its status."""
    ran = sluice(command, "--quiet", folder=tmp_path)
    assert ran.returncode == 2
    assert needed in ran.stderr
    assert ran.stderr.startswith(f"usage: sluice {command} ")


def test_who_stops_the_command_stops_the_job(tmp_path: Path) -> None:
    """The job replaces the process of the command, so that a supervisor that ends it ends the job."""
    (tmp_path / "spark_jobs").mkdir()
    (tmp_path / "spark_jobs" / "__init__.py").touch()
    (tmp_path / "spark_jobs" / "cli.py").write_text("import os\ndef main(program): print(os.getpid())")
    command = [sys.executable, "-m", "broker", "compact"]
    environment = clean_environment() | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        printed, _ = process.communicate(timeout=SECONDS)
    assert printed == f"{process.pid}\n"
