"""An authenticator and an authorizer for Sluice: guests with one password for all, and rules from a file of rooms.

authentication:
  plugins:
    - {name: example, settings: {password_file: /etc/guests, roles: [guest]}}
authorization:
  plugins:
    - {name: example, settings: {rooms_file: /etc/rooms}}      # lines such as `guest-ann kitchen`
"""

import asyncio
import hmac
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from broker.auth.plugins import Answer, Identity, Login, No, Who


class PasswordOfTheDay:
    """Lets in everybody whose user name begins with `guest-` and who knows the password of the day."""

    name = "example"

    def __init__(self, settings: dict[str, Any]) -> None:
        """A ValueError is shown to the operator, so it must not quote what is secret."""
        unknown = settings.keys() - {"password_file", "roles"}
        if unknown or "password_file" not in settings:
            raise ValueError("write password_file, and perhaps roles")
        self._path = Path(settings["password_file"])
        self._roles = frozenset(settings.get("roles", ()))
        self._password = self._path.read_bytes().strip()
        self._guests: set[str] = set()

    async def authenticate(self, login: Login) -> Answer:
        """`No.NOT_MINE` leaves a login to the next authenticator; `No.DENIED` ends it."""
        if not login.username.startswith("guest-"):
            return No.NOT_MINE
        if login.password is None or not hmac.compare_digest(login.password, self._password):
            return No.DENIED
        self._guests.add(login.username)
        return Identity(login.username, self._roles, limits=(("max_connections", 1),))

    async def run(self, disconnect: Callable[[set[str]], None]) -> None:
        """Optional: runs beside the broker, until it stops. Here: with a new password all guests log in again."""
        while True:
            await asyncio.sleep(0.2)
            password = (await asyncio.to_thread(self._path.read_bytes)).strip()
            if password != self._password:
                self._password = password
                disconnect(self._guests)
                self._guests = set()


class RoomsOfUsers:
    """Each user may use the topics of the rooms that a file names for it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._path = Path(settings["rooms_file"])
        self._text = self._path.read_text()

    def rules(self, who: Who) -> Iterator[Mapping[str, object]]:
        """The rules of one client, in the form of the configuration. It must not wait: what it needs is in memory."""
        for line in self._text.splitlines():
            user, _, room = line.partition(" ")
            if user == who.user:
                yield {"permit": "allow", "topics": [f"rooms/{room}/#"]}

    async def run(self, changed: Callable[[], None]) -> None:
        """Optional: says when `rules` would answer differently: connected clients then have the new rules at once."""
        while True:
            await asyncio.sleep(0.2)
            text = await asyncio.to_thread(self._path.read_text)
            if text != self._text:
                self._text = text
                changed()
