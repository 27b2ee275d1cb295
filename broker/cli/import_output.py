"""What every `sluice import` does with its result: it is checked, written and summarised."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import typer

import config
from broker.cli.checking import certificate_dates, unusable_tls
from config import imported

if TYPE_CHECKING:
    from broker.cli.mosquitto_state import ImportedState

LOOK: Final = 1
"""Exit status when the file is written, and lines or files need a look."""

NOT_WRITTEN: Final = 2
"""Exit status when nothing is written."""

_FILES: Final = ("certfile", "keyfile", "cafile", "crlfile", "password_file", "acl_file", "key_file")
"""Keys of files: that one cannot be read here does not keep the new configuration from being written."""


def checked(output: Path, text: str, secrets: Mapping[Path, str], state: "ImportedState | None") -> list[str]:
    """Check the text, and write it, new files of users and passwords, and the journal.

    Returns problems with files that it names. Certificates are looked at if all files are there. With any other mistake
    nothing is written, and the command ends.
    """
    made: list[Path] = []
    try:
        for path, content in secrets.items():
            with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                made.append(path)
                file.write(content)
        problems = _written(output, text, made)
        wrong = [each for each in problems if not each.path.endswith(_FILES)]
    except OSError as error:
        _undo(made, f"{error.filename}: {error.strerror}")
    if wrong:
        _undo(made, "\n".join(_of_line(each, text) for each in wrong))
    if not problems:
        loaded = config.load(made[-1], environ={})
        problems = [*unusable_tls(loaded), *certificate_dates(loaded)[0]]
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
    refuse(f"nothing is written:\n{why}")


def _of_line(problem: config.Problem, text: str) -> str:
    """The problem, with the line that its key comes from."""
    line = text.splitlines()[problem.line - 1] if problem.line else ""
    _, found, source = line.partition("  # ")
    return f"{source}: {problem.message}" if found else f"{problem.path}: {problem.message}"


def new_secrets(users: Path | None, passwords: Mapping[Path, str]) -> dict[Path, str]:
    """The files of secrets that are to be made: `users`, if it is needed and not there, and those of passwords.

    None is replaced: the command ends if there is another password in one.
    """
    made = {users: ""} if users is not None and not users.exists() else {}
    for path, password in passwords.items():
        try:
            found = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
        except OSError as error:
            refuse(f"nothing is written: {path}: {error.strerror}")
        if found not in (None, password):
            refuse(f"nothing is written: {path} exists, and has another password: move it away")
        if found is None:
            made[path] = password
    return made


def summarise(output: Path, findings: Sequence[imported.Finding], secrets: Mapping[Path, str]) -> None:
    """Say what has no counterpart, and what is written. `secrets`: the new files of users and passwords."""
    left = [finding for finding in findings if not finding.wrong]
    for line in imported.told(left):
        print(line)
    many = "1 line has" if len(findings) == 1 else f"{len(findings)} lines have"
    wrong = len(findings) - len(left)
    first = f"; look at {wrong} of them first" if wrong else ""
    print(f"{output} is written; {many} no counterpart, or need none{first}: see the comments in it")
    for path, content in secrets.items():
        if content:
            print(f"{path} is written, with a password: the broker has to run as its owner, {owner_of(path)}")
        else:
            print(f"{path} is written, without users: `sluice user add NAME --file {path}` adds one")


def owner_of(path: Path) -> str:
    """The name of the user whose file it is, or the number."""
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)


def refuse(text: str) -> NoReturn:
    """End the command; nothing has been written."""
    print(f"sluice: {text}", file=sys.stderr)
    raise typer.Exit(NOT_WRITTEN)
