"""A configuration with many rules and a user for each client, to be measured beside one with neither."""

from pathlib import Path
from typing import Final

from broker.auth.authenticators.users_file import User
from tests.support.broker.logins import fast_hash

NAME: Final = "sluice-rules"
USER: Final = "user"
"""What the generator's user names begin with, and their password."""
MOST_CLIENTS: Final = 12_000
"""Of all loads."""
MOST: Final = 1.03
"""The highest ratio of a row's figure to that without rules and users."""


def sections(rules: int, folder: Path) -> dict[str, object]:
    """Half of the rules are about one user each, the others about all; only the last one is about the load's topics."""
    encoded = fast_hash(USER)
    users = folder / "users"
    users.write_text("".join(User(f"{USER}{number}", encoded).line() for number in range(MOST_CLIENTS)))
    given = [_rule(number) for number in range(rules - 1)]
    given.append({"permit": "allow", "topics": ["#"]})
    return {
        "allow_anonymous": False,
        "authentication": {"password_file": str(users)},
        "authorization": {"default": "deny", "rules": given},
    }


def _rule(number: int) -> dict[str, object]:
    if number % 2:
        return {"permit": "allow", "topics": [f"own/{number}/#"], "users": [f"{USER}{number // 2}"]}
    return {"permit": "allow", "topics": [f"other/{number}/+", f"shared/{number}/{{username}}/#"]}
