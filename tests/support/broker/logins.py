"""Users in password files, and clients that log in with user name and password: at the level of packets, or by paho."""

import threading
from pathlib import Path
from typing import Any, Final

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.reasoncodes import ReasonCode

from broker.auth.authenticators import password_hash
from broker.auth.authenticators.users_file import User
from protocol.connack import Connack
from protocol.connect import Connect
from tests.support.process import Address
from tests.support.wire import WireClient

PASSWORDS: Final = {"ann": "correct horse", "ben": "battery staple"}
SECONDS: Final = 10.0

NO_LIMITS: Final = {"failed_logins": {"per_address": "infinity", "per_user": "infinity"}}
"""Tests fail to log in as often as they like."""


def write_users(
    path: Path, passwords: dict[str, str] | None = None, roles: dict[str, tuple[str, ...]] | None = None
) -> Path:
    """Write a password file with these users, as somebody does who has never heard of locks and renaming."""
    users = PASSWORDS if passwords is None else passwords
    lines = [User(name, fast_hash(users[name]), (roles or {}).get(name, ())).line() for name in users]
    path.write_text("".join(lines))
    return path


def fast_hash(password: str) -> str:
    """A hash that costs nothing; what argon2id costs is the subject of few tests."""
    from argon2.low_level import Type, hash_secret

    return hash_secret(password.encode(), b"salt" * 4, 1, 8, 1, 32, Type.ID).decode()


def slow_hash(password: str) -> str:
    """A hash as `sluice user add` makes it."""
    return password_hash.make(password.encode())


def sections(path: Path, **more: Any) -> dict[str, Any]:
    """The sections of a configuration in which only the users of this file are let in."""
    return {"allow_anonymous": None, "authentication": {"password_file": str(path), **NO_LIMITS}, **more}


def log_in(
    address: Address, user: str | None, password: str | bytes | None, version: int = 5, client_id: str = ""
) -> WireClient:
    """Connect and send CONNECT with this user name and password; the answer has not been read."""
    client = WireClient(address, version)
    secret = password.encode() if isinstance(password, str) else password
    client.send(Connect(client_id, True, 0, username=user, password=secret, version=version))
    return client


def code(address: Address, user: str | None, password: str | bytes | None, version: int = 5) -> int:
    """The reason code (or return code) of CONNACK."""
    with log_in(address, user, password, version) as client:
        return client.expect(Connack).reason_code


def paho_login(address: Address, user: str, password: str, version: int) -> ReasonCode:
    """What paho is told when it logs in."""
    answers: list[ReasonCode] = []
    answered = threading.Event()

    def on_connect(_client: Any, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any) -> None:
        answers.append(reason)
        answered.set()

    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion(version))
    client.on_connect = on_connect
    client.username_pw_set(user, password)
    client.connect(*address)
    client.loop_start()
    try:
        assert answered.wait(SECONDS), "no CONNACK"
    finally:
        client.disconnect()
        client.loop_stop()
    return answers[0]
