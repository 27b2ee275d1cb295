"""The commands `sluice user ...`: they change a password file, and print entries of SCRAM for the configuration."""

import json
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import ValidationError

import config
from broker.auth.authenticators import password_hash, users_file
from broker.auth.authenticators.users_file import User
from broker.cli.options import CONFIG_PROBLEM
from config import ScramUser
from config.access import LEAST_ITERATIONS, MOST_ITERATIONS
from config.value_types import MAX_UINT16

ITERATIONS: Final = 15_000
"""Takes a client about a tenth of a second (RFC 7677, section 4); small devices may need fewer."""

user_app = typer.Typer(
    help="Change the users of a password file; make entries for SCRAM.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
File = Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="The password file.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The configuration that names it, unless --file does."),
]
Roles = Annotated[
    list[str] | None, typer.Option("--role", "-r", metavar="ROLE", help="A role of the user; may be repeated.")
]


@user_app.command("add")
def add(name: Name, role: Roles = None, file: File = None, config_file: ConfigFile = None) -> None:
    """Add a user; the file is created if there is none.

    The password is asked for, or is the first line of standard input. The file holds its hash (argon2id). A running
    broker reads the file within a second or two.
    """

    path = _file(file, config_file)

    def edit(user: User | None) -> User:
        if user is not None:
            raise ValueError(f"there is a user {name!r} already: `sluice user passwd` changes the password")
        return new

    try:
        users_file.check_name(name)
        users_file.check_roles(role or [])
        new = User(name, password_hash.make(_sendable_password()), tuple(role or ()))
    except ValueError as error:
        raise _failed(str(error)) from None
    _change(path, name, edit, "is added", create=True)


@user_app.command("passwd")
def passwd(name: Name, file: File = None, config_file: ConfigFile = None) -> None:
    """Change a user's password. A running broker disconnects the user, who has to log in with the new one."""
    path = _file(file, config_file)
    try:
        encoded = password_hash.make(_sendable_password())
    except ValueError as error:
        raise _failed(str(error)) from None
    _change(path, name, lambda user: _known(user, name)._replace(hash=encoded), "has another password")


@user_app.command("roles")
def roles(
    name: Name,
    role: Annotated[list[str] | None, typer.Argument(metavar="[ROLE]...", help="All roles of the user.")] = None,
    file: File = None,
    config_file: ConfigFile = None,
) -> None:
    """Change a user's roles to these; without any, the user has none."""

    def edit(user: User | None) -> User:
        users_file.check_roles(role or [])
        return _known(user, name)._replace(roles=tuple(role or ()))

    _change(_file(file, config_file), name, edit, f"has the roles {', '.join(role)}" if role else "has no roles")


@user_app.command("remove")
def remove(name: Name, file: File = None, config_file: ConfigFile = None) -> None:
    """Remove a user. A running broker disconnects the user."""

    def edit(user: User | None) -> None:
        _known(user, name)

    _change(_file(file, config_file), name, edit, "is removed")


@user_app.command("list")
def list_users(file: File = None, config_file: ConfigFile = None) -> None:
    """List the users, the kinds of their hashes and their roles. Exit status 2 if lines cannot be used."""
    path = _file(file, config_file)
    try:
        users, mistakes = users_file.read(path)
    except OSError as error:
        raise _failed(f"{path}: {error.strerror}") from None
    width = max((len(name) for name in users), default=0)
    for user in users.values():
        print(f"{user.name:<{width}}  {password_hash.kind(user.hash):<13}  {','.join(user.roles)}".rstrip())
    for mistake in mistakes:
        print(f"sluice: {path}: {mistake}", file=sys.stderr)
    if mistakes:
        raise typer.Exit(CONFIG_PROBLEM)


def _file(file: Path | None, config_file: Path | None) -> Path:
    """The password file: the one of the option, or of the configuration."""
    if file is not None:
        return file
    try:
        path = config.load(config_file).config.authentication.password_file
    except config.ConfigError as error:
        raise _failed(str(error)) from None
    if path is None:
        raise _failed("which password file? Give --file FILE, or --config FILE with authentication.password_file")
    return path


def _known(user: User | None, name: str) -> User:
    if user is None:
        raise ValueError(f"there is no user {name!r}")
    return user


def _change(path: Path, name: str, edit: Callable[[User | None], User | None], done: str, create: bool = False) -> None:
    """Edit the user in the file, and say what is `done`; exit with 2 if it cannot be."""
    try:
        users_file.change(path, name, edit, create)
    except OSError as error:
        raise _failed(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise _failed(str(error)) from None
    print(f"{path}: {name!r} {done}")


def _failed(message: str) -> typer.Exit:
    print(f"sluice: {message}", file=sys.stderr)
    return typer.Exit(CONFIG_PROBLEM)


@user_app.command("scram")
def scram(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")],
    iterations: Annotated[
        int,
        typer.Option(min=LEAST_ITERATIONS, max=MOST_ITERATIONS, metavar="COUNT", help="How often clients hash."),
    ] = ITERATIONS,
) -> None:
    """Print an entry for SCRAM-SHA-256.

    It belongs in authentication.scram. The password is asked for, or is the first line of standard input; it is not
    in the entry. Keep the keys secret nevertheless: they allow to test guessed passwords.
    """
    try:
        user = _entry(name, _password(), iterations)
    except ValueError as error:
        raise _failed(str(error)) from None
    print(f"    - username: {json.dumps(user.username, ensure_ascii=False)}")  # indented as in the file
    print(f"      salt: {json.dumps(user.salt)}")
    print(f"      iterations: {user.iterations}")
    print(f"      stored_key: {json.dumps(user.stored_key.get_secret_value())}")
    print(f"      server_key: {json.dumps(user.server_key.get_secret_value())}")


def _password() -> str:
    """Prompt for the password twice, without echo; without a terminal, read it from standard input."""
    try:
        if sys.stdin.isatty():
            text: str = typer.prompt("Password", hide_input=True, confirmation_prompt="Once more", err=True)
        else:
            text = sys.stdin.readline().rstrip("\r\n")
        text.encode()  # in some locales other bytes are no error before
    except UnicodeError:
        raise ValueError("the password is not text in UTF-8: write it in UTF-8, as clients send it") from None
    if not text:
        raise ValueError("the password is empty")
    return text


def _sendable_password() -> bytes:
    """As `_password`, for clients that send it in CONNECT."""
    password = _password().encode()
    if len(password) > MAX_UINT16:
        raise ValueError(f"the password has {len(password)} bytes; clients can send {MAX_UINT16} at most")
    return password


def _entry(name: str, password: str, iterations: int) -> ScramUser:
    """The entry, validated like the configuration. Raises ValueError if clients could not log in with it."""
    from scramp import ScramClient, ScramException, ScramMechanism

    from broker.auth.scram import NAME

    try:
        client = ScramClient([NAME], name, password)
        salt, stored_key, server_key, _ = ScramMechanism(NAME).make_auth_info(password, iterations)
        user = ScramUser.model_validate(
            {
                "username": str(client.username),
                "salt": b64encode(salt).decode(),
                "iterations": iterations,
                "stored_key": b64encode(stored_key).decode(),
                "server_key": b64encode(server_key).decode(),
            }
        )
    except ScramException as error:
        raise ValueError(f"the name or the password holds what SCRAM does not allow: {error.args[0]}") from None
    except ValidationError as error:
        raise ValueError(f"the name is not allowed: {error.errors()[0]['ctx']['error']}") from None
    return user
