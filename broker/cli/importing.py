"""`sluice import`: a configuration of Mosquitto or EMQX becomes one of Sluice."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.auth.authenticators import users_file
from broker.auth.rule_files import mosquitto_acl
from broker.cli import mosquitto_chain
from broker.cli.import_output import LOOK, checked, new_secrets, refuse, summarise
from config import emqx, imported, mosquitto
from config.files import is_there

if TYPE_CHECKING:
    from broker.cli.mosquitto_state import ImportedState

Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The new configuration.")]
Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")]

import_app = typer.Typer(help="Take over the configuration of another broker.", no_args_is_help=True)


@import_app.command("mosquitto")
def import_mosquitto(
    source: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="mosquitto.conf, or the directory it is in.")],
    output: Output = Path("sluice.yaml"),
    force: Force = False,
    moved: Annotated[
        list[str],
        typer.Option("--map", metavar="FOLDER=HERE", help="Where a folder of Mosquitto's container is. Repeatable."),
    ] = [],  # noqa: B006 - never changed
    without_persistence: Annotated[
        bool, typer.Option("--without-persistence", help="Import the configuration only, not mosquitto.db.")
    ] = False,
) -> None:
    """Take over mosquitto.conf and mosquitto.db.

    mosquitto.conf, with its include_dir, becomes a configuration of Sluice, and mosquitto.db a journal.
    Users and rules stay in Mosquitto's own files, which Sluice reads as they are. Each line without a counterpart
    becomes a comment. What decides about access and has no counterpart closes what it is about. Bridges (`connection`)
    become bridges, and each remote_password a file of its own, bridge-NAME.password. Files of a container,
    such as /mosquitto/config/passwd, are looked for beside mosquitto.conf.
    The result is checked as `sluice config check` does before it is written: with a mistake nothing is, but for files
    that are missing, which are named. With `persistence true`
    sessions, what waits for them and retained messages are taken over: stop Mosquitto before. No journal is replaced.

    Example: sluice import mosquitto /etc/mosquitto --output /etc/sluice/sluice.yaml

    Exit status: 0 = written; 1 = written, but look at what is printed; 2 = not written.
    """
    try:
        paths = mosquitto.Paths(tuple(map(mosquitto.mapping, moved)))
        lines, findings = mosquitto.read(source, paths)
        users = output.with_name(f"{output.stem}-users")
        journal = _journal(lines, output, paths)
        translated = mosquitto.translate(lines, findings, users.absolute(), journal, paths)
    except (OSError, ValueError) as error:
        refuse(str(error) if str(source) in str(error) else f"{source}: {error}")
    mistakes = list(_mistakes(lines, paths))
    _may_write(output, force)
    text = imported.document(translated.section, "mosquitto", str(source))
    secrets = new_secrets(translated.users and users, translated.passwords)
    database = None if without_persistence else translated.database
    state = _state(database, journal, translated.section) if database is not None else None
    missing = [_with_remedy(each, lines) for each in checked(output, text, secrets, state)]
    findings = translated.findings
    wrong = imported.told(finding for finding in findings if finding.wrong) + missing
    wrong += [*mistakes, *mosquitto_chain.missing(translated.chains, paths)]
    if state is not None:
        wrong += state.wrong()
    for each in wrong:
        print(each, file=sys.stderr)
    summarise(output, findings, secrets)
    for line in state.told() if state is not None else _not_taken(translated, without_persistence):
        print(line)
    print(f"next: sluice config check {output}; sluice run --config {output}")
    if wrong:
        raise typer.Exit(LOOK)


@import_app.command("emqx")
def import_emqx(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="DIR|FILE...", help="emqx.conf, or the directory it is in; later files count."),
    ],
    output: Output = Path("sluice.yaml"),
    force: Force = False,
) -> None:
    """Take over emqx.conf and cluster.hocon.

    emqx.conf, and cluster.hocon if it is named or beside it, become a configuration of Sluice.
    The rules of acl.conf become authorization.rules, and MQTT bridges that copy messages from topics to topics become
    bridges, each password a file of its own, bridge-NAME.password. EMQX's users, sessions and messages stay in a
    database of its own. Each setting without a counterpart becomes a comment. The result is checked as `sluice config
    check` does before it is written: with a mistake nothing is, but for files that are missing, which are named.

    Example: sluice import emqx /var/lib/emqx/configs/cluster.hocon /etc/emqx/emqx.conf --output /etc/sluice/sluice.yaml

    Exit status: 0 = written; 1 = written, but look at what is printed; 2 = not written.
    """
    users = output.with_name(f"{output.stem}-users")
    last = sources[-1]
    try:
        folder = last if last.is_dir() else last.parent
        journal = output.absolute().parent / "journal"
        translated = emqx.translate(emqx.read(sources), folder, users.absolute(), journal, _algorithms)
    except ImportError:
        refuse("HOCON is read by a library that is not installed: pip install 'sluice-mqtt[emqx]'")
    except OSError as error:
        refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValueError as error:
        refuse(str(error))
    _may_write(output, force)
    text = imported.document(translated.section, "emqx", ", ".join(map(str, sources)))
    secrets = new_secrets(translated.users and users, translated.passwords)
    missing = checked(output, text, secrets, None)
    wrong = imported.told(finding for finding in translated.findings if finding.wrong) + missing
    for each in wrong:
        print(each, file=sys.stderr)
    summarise(output, translated.findings, secrets)
    print(f"next: sluice config check {output}; sluice run --config {output}")
    if wrong:
        raise typer.Exit(LOOK)


def _with_remedy(missing: str, lines: Sequence[imported.Line]) -> str:
    """What is said of a file that is not here, and where to look for it if its path may be that of a container."""
    for line in lines:
        if missing.startswith(f"{line}: there is no file") and Path(line.value).is_absolute():
            return f"{missing}; if it is elsewhere, import again with --force --map {Path(line.value).parent}=DIR"
    return missing


def _algorithms(path: Path) -> list[str]:
    from broker.auth.authenticators.token_keys import algorithms_of  # slow to import, and few imports need it

    return algorithms_of(path)


def _may_write(output: Path, force: bool) -> None:
    try:
        there_is_a_folder, exists, is_folder = output.parent.is_dir(), output.exists(), output.is_dir()
    except OSError as error:
        refuse(f"{output}: {error.strerror}: name another file by --output")
    if not there_is_a_folder:
        refuse(f"there is no folder {output.parent}: make it, or name another file by --output")
    if is_folder:
        refuse(f"{output} is a folder: name a file in it by --output")
    if exists and not force:
        refuse(f"{output} exists: name another file by --output, or replace it by --force")


def _journal(lines: Sequence[imported.Line], output: Path, paths: mosquitto.Paths) -> Path:
    """Where the journal is to be: not among Mosquitto's own files."""
    locations = [line for line in lines if line.name == "persistence_location"]
    if locations and Path(locations[-1].value).is_absolute():
        beside = Path(paths.of(locations[-1])).parent
        if is_there(beside):  # else it is in a container
            return beside / "sluice" / "journal"
    return output.absolute().parent / "journal"


def _state(database: Path, journal: Path, section: imported.Section) -> "ImportedState | None":
    """The persistence file, read; None = Mosquitto has not written one."""
    from broker.cli.mosquitto_state import REMEDY, ImportedState, new_broker  # slow to import, for every command

    try:
        return ImportedState(database, journal, new_broker(section)) if database.exists() else None
    except (OSError, ValueError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        refuse(f"nothing is written: {why if str(journal) in why else f'{database}: {why}'}\n{REMEDY}")


def _not_taken(translated: mosquitto.Translated, without: bool) -> Iterator[str]:
    """What is said if there is no journal."""
    database, other = translated.database, translated.passed_over
    if database is not None and without:
        yield f"{database} is not read"
    elif database is not None:
        yield f"{database}: there is no such file, so no sessions are imported (--map: the folders of a container)"
    elif other is not None and is_there(other):
        yield f"{other} is passed over: persistence is off, so Mosquitto does not read it either"


def _mistakes(lines: Sequence[imported.Line], paths: mosquitto.Paths) -> Iterator[str]:
    """What Sluice will not understand in the files of users; ends the command for one of rules, as Mosquitto would."""
    for line in dict.fromkeys(lines):
        if line.name not in ("password_file", "acl_file") or not line.value:
            continue
        path = Path(paths.of(line))
        try:
            if not path.is_file():
                continue
            if line.name == "password_file":
                yield from (f"{path}:{each.line}: {each.text}" for each in users_file.read(path).mistakes)
            else:
                mosquitto_acl.read(path)
        except OSError:
            continue  # that it cannot be read is found when the result is checked
        except ValueError as error:
            refuse(f"{path}: {error}\nMosquitto does not start with this file, so nothing is written")
