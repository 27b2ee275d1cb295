"""`sluice import mosquitto`: a configuration of Mosquitto becomes one of Sluice."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

import config
from broker.auth.authenticators import users_file
from broker.auth.rule_files import mosquitto_acl
from broker.cli.mosquitto_state import REMEDY, ImportedState, new_broker
from config import mosquitto

LOOK: Final = 1
"""Exit status when the file is written, and lines or files need a look."""

NOT_WRITTEN: Final = 2
"""Exit status when nothing is written."""

_FILES: Final = ("certfile", "keyfile", "cafile", "crlfile", "password_file", "acl_file")
"""Keys of files: that one cannot be read here does not keep the new configuration from being written."""

import_app = typer.Typer(help="Take over the configuration of another broker.", no_args_is_help=True)


@import_app.callback()
def _commands() -> None:
    """Without it typer would leave out the name of the only command."""


@import_app.command("mosquitto")
def import_mosquitto(
    source: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="mosquitto.conf, or the directory it is in.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The new configuration.")] = Path(
        "sluice.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    without_persistence: Annotated[
        bool, typer.Option("--without-persistence", help="Import the configuration only, not mosquitto.db.")
    ] = False,
) -> None:
    """Turn mosquitto.conf, with its include_dir, into a configuration of Sluice, and mosquitto.db into a journal.

    Users and rules stay in Mosquitto's own files, which Sluice reads as they are. Each line without a counterpart
    becomes a comment. The result is checked as `sluice config check` does before it is written. With `persistence true`
    sessions, what waits for them and retained messages are taken over: stop Mosquitto before. No journal is replaced.

    Example: sluice import mosquitto /etc/mosquitto --output /etc/sluice/sluice.yaml

    Exit status: 0 = written; 1 = written, but look at what is printed; 2 = not written.
    """
    try:
        lines, findings = mosquitto.read(source)
        users = output.with_name(f"{output.stem}-users")
        journal = _journal(lines, output)
        translated = mosquitto.translate(lines, findings, users.absolute(), journal)
    except (OSError, ValueError) as error:
        _refuse(str(error) if str(source) in str(error) else f"{source}: {error}")
    if output.exists() and not force:
        _refuse(f"{output} exists: name another file by --output, or replace it by --force")
    text = mosquitto.document(translated.section, str(source))
    needed = users if translated.users is not None and not users.exists() else None
    database = None if without_persistence else translated.database
    state = _state(database, journal, translated.section) if database is not None else None
    missing = _checked(output, text, needed, state)
    findings = translated.findings
    wrong = [str(finding) for finding in findings if finding.wrong] + missing + list(_mistakes(lines))
    if state is not None:
        wrong += state.wrong()
    for each in wrong:
        print(each, file=sys.stderr)
    _summarise(output, findings, needed)
    for line in state.told() if state is not None else _not_taken(translated.database, without_persistence):
        print(line)
    print(f"next: sluice config check {output}; sluice run --config {output}")
    if wrong:
        raise typer.Exit(LOOK)


def _journal(lines: Sequence[mosquitto.Line], output: Path) -> Path:
    """Where the journal is to be: not among Mosquitto's own files."""
    locations = [line.value for line in lines if line.name == "persistence_location"]
    if locations and Path(locations[-1]).is_absolute():
        return Path(locations[-1]).parent / "sluice" / "journal"
    return output.absolute().parent / "journal"


def _state(database: Path, journal: Path, section: mosquitto.Section) -> ImportedState | None:
    """The persistence file, read; None = Mosquitto has not written one."""
    try:
        return ImportedState(database, journal, new_broker(section)) if database.exists() else None
    except (OSError, ValueError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        _refuse(f"nothing is written: {why if str(journal) in why else f'{database}: {why}'}\n{REMEDY}")


def _not_taken(database: Path | None, without: bool) -> Iterator[str]:
    """What is said if there is no journal."""
    if database is not None:
        yield (
            f"{database} is not read" if without else f"{database}: there is no such file, so no sessions are imported"
        )


def _checked(output: Path, text: str, users: Path | None, state: ImportedState | None) -> list[str]:
    """Check the text, and write it, the empty file `users` and the journal; returns problems with files it names.

    With any other mistake nothing is written, and the command ends.
    """
    made: list[Path] = []
    try:
        if users is not None:
            os.close(os.open(users, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            made.append(users)
        problems = _written(output, text, made)
        wrong = [each for each in problems if not each.path.endswith(_FILES)]
    except OSError as error:
        _undo(made, f"{error.filename}: {error.strerror}")
    if wrong:
        _undo(made, "\n".join(_of_line(each, text) for each in wrong))
    try:
        if state is not None:
            state.write()
    except (OSError, ValueError) as error:
        _undo(made, str(error))
    made[-1].replace(output)
    return [_of_line(each, text) for each in problems]


def _written(output: Path, text: str, made: list[Path]) -> list[config.Problem]:
    """Write a temporary file beside the output, which is then the last one in `made`, and check it."""
    descriptor, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    made.append(Path(name))
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    made[-1].chmod(0o644)
    return config.check(made[-1])


def _undo(made: Sequence[Path], why: str) -> NoReturn:
    for path in made:
        path.unlink(missing_ok=True)
    _refuse(f"nothing is written:\n{why}")


def _of_line(problem: config.Problem, text: str) -> str:
    """The problem, with the line of Mosquitto that its key comes from."""
    line = text.splitlines()[problem.line - 1] if problem.line else ""
    _, found, source = line.partition("  # ")
    return f"{source}: {problem.message}" if found else f"{problem.path}: {problem.message}"


def _mistakes(lines: Sequence[mosquitto.Line]) -> Iterator[str]:
    """What Sluice will not understand in the files of users and rules."""
    for line in dict.fromkeys(lines):
        path = Path(mosquitto.path_of(line))
        if not line.value or not path.is_file():
            continue
        try:
            if line.name == "password_file":
                yield from (f"{path}:{each.line}: {each.text}" for each in users_file.read(path).mistakes)
            elif line.name == "acl_file":
                mosquitto_acl.read(path)
        except (OSError, ValueError) as error:
            yield f"{path}: {error}"


def _summarise(output: Path, findings: Sequence[mosquitto.Finding], users: Path | None) -> None:
    left = [finding for finding in findings if not finding.wrong]
    for finding in left:
        print(finding)
    print(f"{output} is written; {len(left)} lines have no counterpart, and are comments in it")
    if users is not None:
        print(f"{users} is written, without users: `sluice user add NAME --file {users}` adds one")


def _refuse(text: str) -> NoReturn:
    print(f"sluice: {text}", file=sys.stderr)
    raise typer.Exit(NOT_WRITTEN)
