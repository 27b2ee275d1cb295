"""Generated files of Mosquitto, imported: the result never permits more than Mosquitto does, whatever the status."""

import hashlib
import shutil
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

import config
from broker.auth.access import Access
from broker.auth.authenticators import users_file
from broker.auth.authenticators.chain import Chain
from broker.auth.authenticators.guard import Guard
from broker.auth.authorizer import Authorizer
from broker.auth.permissions import Who
from broker.auth.rule_files.rule_files import open_files
from broker.auth.rules import Rule
from broker.routing.topic_rules import TopicRules
from broker.runtime.origin import Origin
from broker.runtime.socket import Socket
from protocol.connect import Connect
from protocol.errors import MQTTError
from tests.imports.mosquitto_reference import CONTAINER, READ, WRITE, Broker, Client, Listener, RefusedError
from tests.imports.pairs import imported, play
from tests.support.certificates import make_certificates

USERS: Final = {"ann": "secret", "ben": "other"}
CLIENTS: Final = (
    Client(),
    Client(client_id="dev-1"),
    Client("ann", "secret"),
    Client("ann", "secret", "dev-1"),
    Client("ann", "wrong"),
    Client("ann"),
    Client("ben", "other"),
    Client("mallory", "x"),
    Client(common_name="client"),
    Client(common_name="client", client_id="dev-1"),
    Client("ann", "secret", common_name="client"),
    Client("ann", common_name="client"),
)
TOPICS: Final = ("a", "a/x", "b/x", "ann/x", "ben/x", "c1/x", "client/x", "dev-1/x", "$SYS/x", "$own/x")
"""Topics of the lines and clients here."""


LARGEST_PACKET: Final = 268_435_460
"""Bytes, header included."""


class Files(NamedTuple):
    """What is in the folder: names and texts."""

    texts: dict[str, str]

    def write(self, folder: Path) -> Path:
        """Write them; returns the first file."""
        for name, text in self.texts.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        return folder / "mosquitto.conf"

    def __str__(self) -> str:
        return "\n".join(f"--- {name}\n{text}" for name, text in self.texts.items())


# -- what is generated

_BEHIND: Final = st.sampled_from(["", "", "", " # a comment", "  "])
_FLAG: Final = st.sampled_from(["true"] * 6 + ["false"] * 3 + ["1", "0"])
_PATH: Final = st.sampled_from(["{}"] * 8 + [CONTAINER + "{}"] * 2 + ["gone/{}"])
_FILTER: Final = st.sampled_from(["a/#", "b/+", "#", "+/x", "a", "%c/#", "%u/#", "%u/x", "$SYS/#", "$own/#", "ann/#"])
_ACCESS: Final = st.sampled_from(["", "read ", "write ", "readwrite ", "readwrite ", "deny "])
_ABOUT: Final = st.sampled_from(["ann", "ben", "client", "CN=client"])

_MISTAKES: Final[tuple[Callable[[str], str], ...]] = (
    lambda line: line.replace("true", "TRUE"),
    lambda line: line.partition(" ")[0],
    lambda line: f"{line}#x",
    lambda line: f"{line}\t# x",
    lambda line: f"{line} # x",
    lambda line: line.replace(" ", "\t", 1),
    lambda line: f"  # {line}",
    lambda line: line.capitalize(),
    lambda line: f"{line}\n{line}",
    lambda line: f"{line}\nper_listener_settings true",
)
"""Of some lines the meaning stays the same; for most Mosquitto does not start."""

_ACL_LINE: Final = st.one_of(
    st.builds("topic {}{}".format, _ACCESS, _FILTER),
    st.builds("topic {}{}".format, _ACCESS, _FILTER),
    st.builds("pattern {}{}".format, _ACCESS, _FILTER),
    st.builds("user {}".format, _ABOUT),
)
_ACL: Final = st.builds(
    lambda lines, more: "\n".join([*lines, *more, ""]),
    st.lists(_ACL_LINE, max_size=5),
    st.sampled_from([[]] * 12 + [["topic sing a"], ["topic a/#/b"], ["# a comment", "", "topic a # b"]]),
)


def _line(form: str, *values: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.builds(lambda behind, *drawn: form.format(*drawn) + behind, _BEHIND, *values)


def _flag(option: str) -> st.SearchStrategy[str]:
    return _line(option + " {}", _FLAG)


def _file(option: str, *names: str) -> st.SearchStrategy[str]:
    return st.builds(lambda path, name: f"{option} {path.format(name)}", _PATH, st.sampled_from(names))


def _some(most: int, *lines: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """At most so many lines, each about another option."""
    return st.lists(st.one_of(*lines), max_size=most, unique_by=lambda line: line.partition(" ")[0])


_ALLOW: Final = _flag("allow_anonymous")
_USERS: Final = _file("password_file", "users", "users", "others")
_RULES: Final = _file("acl_file", "acl", "acl", "tight")
_TLS: Final = st.builds(
    lambda ca, key, more: [*ca, "certfile server.pem", *key, *more],
    st.sampled_from([["cafile ca.pem"], ["cafile ca.pem"], ["cafile ca.pem"], ["capath ."], []]),
    st.sampled_from([["keyfile server.key"]] * 6 + [[]]),
    _some(3, *map(_flag, ("require_certificate", "use_identity_as_username", "use_subject_as_username"))),
)
_OF_LISTENER: Final = (
    _flag("use_username_as_clientid"),
    _line("max_qos {}", st.integers(0, 2)),
    _line("max_connections {}", st.sampled_from([-1, 0, 5])),
    _line("socket_domain {}", st.sampled_from(["ipv4", "ipv6"])),
    st.sampled_from(["mount_point b/", "plugin /nowhere.so"]),
)
_OF_BROKER: Final = (
    _flag("retain_available"),
    _flag("queue_qos0_messages"),
    _line("max_packet_size {}", st.sampled_from([300, 1000])),
    _line("max_keepalive {}", st.sampled_from([30, 65_535])),
    _line("port {}", st.sampled_from([1883, 1882])),
    st.sampled_from(["clientid_prefixes dev-", "bind_address 127.0.0.1", "pid_file /run/x.pid", "include_dir more"]),
)
_HOST: Final = st.sampled_from(["", "", "", " 127.0.0.1", " localhost", " # everywhere", " 127.0.0.1 # local"])


@st.composite
def _lines(draw: st.DrawFn) -> list[str]:
    """The lines of mosquitto.conf."""
    lines = draw(_some(1, _flag("per_listener_settings")))
    lines += draw(_some(3, _ALLOW, _USERS, _RULES, *_OF_BROKER))
    for number in range(draw(st.integers(0, 3))):
        lines.append(f"listener {1884 + number}{draw(_HOST)}")
        lines += draw(_some(3, _ALLOW, _USERS, _RULES))
        lines += draw(_TLS) if draw(st.integers(0, 2)) == 0 else []
        lines += draw(_some(1, *_OF_LISTENER)) if draw(st.integers(0, 2)) == 0 else []
    if lines and draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(0, len(lines) - 1))
        lines[place] = draw(st.sampled_from(_MISTAKES))(lines[place])
    return lines


@st.composite
def files(draw: st.DrawFn) -> Files:
    """A configuration with its files."""
    return Files(
        {
            "mosquitto.conf": "\n".join([*draw(_lines()), ""]),
            "acl": draw(_ACL),
            "tight": "topic read a/#\n",
            "users": "".join(f"{user}:{_hash(password)}\n" for user, password in USERS.items()),
            "others": f"ben:{_hash(USERS['ben'])}\n",
            "more/a.conf": draw(st.one_of(_ALLOW, _USERS, _RULES, _flag("require_certificate"))) + "\n",
        }
    )


@cache
def _hash(password: str) -> str:
    """As mosquitto_passwd writes it."""
    salt = b"twelve bytes"
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"$7$101${b64encode(salt).decode()}${b64encode(key).decode()}"


# -- what the result permits


def _socket(common_name: str | None) -> Socket:
    """A connection; with a name it has shown a certificate."""
    shown = {"subject": ((("commonName", common_name),),)}
    return Socket(Origin("127.0.0.1", "", certificate=shown if common_name else None))


class Result:
    """What a broker with the imported configuration permits, by its own rules."""

    def __init__(self, settings: config.Config) -> None:
        """Raises OSError, if it would not start."""
        self.config = settings
        self._topics = TopicRules(settings)
        self._authorizer = Authorizer(settings)

        async def unused(key: str, rules: list[Rule]) -> None:
            """Files do not change here."""

        open_files(settings, self._authorizer, unused)
        own = settings.authentication
        self._users = {} if own.password_file is None else users_file.read(own.password_file).users
        guard = Guard(0, 0, 1)
        self._access = Access(settings, guard, Chain([], guard) if own.has_chain else None)

    def permits(self, listener: config.Listener, client: Client, topic: str, access: int) -> bool:
        """Whether a client may publish on a topic, or get its messages, on a listener."""
        try:
            user = self._user(listener, client)
        except MQTTError:
            return False
        who = Who(user, frozenset(), client.client_id, "127.0.0.1", listener.name)
        permissions = self._authorizer.permissions(who)
        levels = topic.encode()
        if access == WRITE:
            return self._topics.may_publish(levels) and permissions.may_publish(levels, 1, False)
        return self._topics.may_receive(levels) and permissions.may_receive(levels, 1)

    def _user(self, listener: config.Listener, client: Client) -> str | None:
        """Who it is; None for a client without a user. Raises MQTTError for one that is not let in."""
        tls = listener.tls
        if tls is not None and tls.require_client_certificate and client.common_name is None:
            raise MQTTError(0, "no certificate")
        socket = _socket(client.common_name if tls is not None and tls.cafile is not None else None)
        password = None if client.password is None else client.password.encode()
        connect = Connect(client.client_id, True, username=client.user, password=password, version=5)
        identity = self._access.certified(connect, listener.name, socket)
        if identity is not None:
            return identity.user
        if not self._access.check(connect, listener.name, socket):
            return None
        if client.user not in self._users or client.password != USERS[client.user]:
            raise MQTTError(0, "no such user")
        return client.user


# -- the comparison


def check(pairs: int, seed: int) -> int:
    """Play so many pairs; returns how many have been. AssertionError has the first whose result permits more."""
    with TemporaryDirectory(prefix="sluice-imports-") as name:
        certificates = Path(name)
        make_certificates(certificates)

        def compare_with_certificates(each: Files, folder: Path) -> None:
            shutil.copytree(certificates, folder, dirs_exist_ok=True)
            compare(each, folder)

        return play(pairs, seed, files(), compare_with_certificates)


def compare(each: Files, folder: Path) -> None:
    """Import one configuration, and compare. Raises AssertionError."""
    file, output = each.write(folder), folder / "sluice.yaml"
    status, _ = imported("mosquitto", file, output)
    assert status in (0, 1, 2), f"{each}\nstatus {status}"
    found = [] if status == 2 else list(_more(file, output))
    assert not found, f"{each}\n--- sluice.yaml\n{output.read_text()}\n--- more open, with status {status}: {found[0]}"


def _more(file: Path, output: Path) -> Iterator[str]:
    """What the result permits and Mosquitto does not."""
    try:
        result = Result(config.load(output, environ={}).config)
    except (config.ConfigError, OSError, ssl.SSLError):
        return  # it does not start
    try:
        original = Broker(file)
    except RefusedError as refused:
        yield f"Mosquitto does not start: {refused}"
        return
    yield from _limits(original, result.config)
    for listener in result.config.listeners:
        here = [each for each in original.listeners if _listens(each, listener)]
        if not here:
            yield f"{listener.bind}: Mosquitto does not listen there"
        for client in CLIENTS:
            for topic in TOPICS:
                for access in (READ, WRITE):
                    if result.permits(listener, client, topic, access) and not any(
                        original.permits(each, client, topic, access) for each in here
                    ):
                        yield f"{listener.bind}: {client} may {'publish' if access == WRITE else 'receive'} {topic}"


def _limits(original: Broker, result: config.Config) -> Iterator[str]:
    """Limits of the whole broker that are wider than Mosquitto's."""
    if result.mqtt.retain_available and not original.flags.get("retain_available", True):
        yield "retained messages"
    if result.mqtt.max_packet_size > max(original.numbers.get("max_packet_size", LARGEST_PACKET), 256):
        yield "larger packets"
    longest = original.numbers.get("max_keepalive", 65_535)
    if longest < 65_535 and (result.mqtt.server_keep_alive or 65_535) > longest:
        yield "longer keep-alives"
    if result.mqtt.maximum_qos > max(each.numbers.get("max_qos", 2) for each in original.listeners):
        yield "a higher QoS"


def _listens(original: Listener, listener: config.Listener) -> bool:
    """Whether Mosquitto listens at least where the result does."""
    domain = original.values.get("socket_domain")
    everywhere = {None: ("0.0.0.0", "::"), "ipv4": ("0.0.0.0",), "ipv6": ("::",)}[domain]
    same = listener.host == original.host if original.host else listener.host in (*everywhere, "127.0.0.1", "::1")
    return listener.port == original.port and same
