"""The commands `sluice user ...`: they generate users' entries for the configuration."""

import json
import sys
from base64 import b64encode
from typing import Annotated, Final

import typer
from pydantic import ValidationError

from broker.cli.options import CONFIG_PROBLEM
from config import ScramUser
from config.access import LEAST_ITERATIONS, MOST_ITERATIONS

ITERATIONS: Final = 15_000
"""Takes a client about a tenth of a second (RFC 7677, section 4); small devices may need fewer."""

user_app = typer.Typer(help="Make entries of users.", no_args_is_help=True)


@user_app.command("scram")
def scram(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")],
    iterations: Annotated[
        int,
        typer.Option(min=LEAST_ITERATIONS, max=MOST_ITERATIONS, metavar="COUNT", help="How often clients hash."),
    ] = ITERATIONS,
) -> None:
    """Print the entry of a user of SCRAM-SHA-256, for authentication.scram.

    The password is asked for, or is the first line of standard input. It is not in the entry. Keep the keys secret
    nevertheless: they allow to test guessed passwords.
    """
    try:
        user = _entry(name, _password(), iterations)
    except ValueError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(CONFIG_PROBLEM) from None
    print(f"    - username: {json.dumps(user.username, ensure_ascii=False)}")  # indented as in the file
    print(f"      salt: {json.dumps(user.salt)}")
    print(f"      iterations: {user.iterations}")
    print(f"      stored_key: {json.dumps(user.stored_key.get_secret_value())}")
    print(f"      server_key: {json.dumps(user.server_key.get_secret_value())}")


def _password() -> str:
    """Prompt for the password twice, without echo; without a terminal, read it from standard input."""
    if sys.stdin.isatty():
        text: str = typer.prompt("Password", hide_input=True, confirmation_prompt="Once more", err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    if not text:
        raise ValueError("the password is empty")
    return text


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
