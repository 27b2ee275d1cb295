"""What Mosquitto 2.0 permits by its files, as its manual and its behaviour say: compared with Mosquitto itself."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

READ: Final = 1
WRITE: Final = 2
CONTAINER: Final = "/mosquitto/config/"
"""Where a container has the folder of the file."""

_SECRETS: Final = {"ann": "secret", "ben": "other"}


class Client(NamedTuple):
    """Who connects."""

    user: str | None = None
    password: str | None = None
    client_id: str = "c1"
    common_name: str | None = None
    """In its certificate; None = it has none."""


class RefusedError(Exception):
    """Mosquitto does not start."""


@dataclass
class Security:
    """Who may connect and what they may do."""

    anonymous: bool | None = None
    files: dict[str, str] = field(default_factory=dict)
    plugin: bool = False


@dataclass
class Listener:
    """One listener. `host`: None = all addresses; `port`: 0 = not set."""

    port: int = 0
    host: str | None = None
    flags: dict[str, bool] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
    is_whole: bool = True
    """Whether all its files are there; what others would say is not known, so that nobody is let in."""

    @property
    def tls(self) -> bool:
        """Whether it speaks TLS."""
        return "certfile" in self.values and "keyfile" in self.values

    @property
    def is_default_used(self) -> bool:
        """Whether the options above the first `listener` open the default one."""
        counts = (self.port, self.host, self.values, self.security.plugin, self.security.files.get("password_file"))
        limited = self.numbers.get("max_qos", 2) != 2 or self.numbers.get("max_connections", -1) >= 0
        return any(counts) or any(self.flags.values()) or limited


_FLAGS: Final = (
    *("require_certificate", "use_identity_as_username", "use_subject_as_username"),
    "use_username_as_clientid",
)
_VALUES: Final = ("certfile", "keyfile", "cafile", "capath", "socket_domain", "mount_point")
_GLOBAL_FLAGS: Final = ("retain_available", "persistence", "allow_duplicate_messages", "queue_qos0_messages")
_NUMBERS: Final = {"max_packet_size": (20, 2**31), "max_keepalive": (10, 65_535), "sys_interval": (0, 65_535)}
_OF_LISTENER: Final = {"max_qos": (0, 2), "max_connections": (-(2**31), 2**31)}
_IGNORED: Final = ("log_dest", "pid_file", "user")


class Broker:
    """One configuration, read."""

    def __init__(self, file: Path) -> None:
        """Raises RefusedError."""
        self.flags: dict[str, bool] = {}
        self.numbers: dict[str, int] = {}
        self.prefix = ""
        self._folder = file.parent
        self._default = Listener()
        self._listeners: list[Listener] = []
        self._security = Security()
        self._per_listener = False
        self._secured = False
        self._local_only = True
        self._read(file, True)
        if self._local_only:
            self._security.anonymous = True
        self.listeners = list(self._listeners)
        if self._default.is_default_used:
            self._default.port = self._default.port or 1883
            self.listeners.append(self._default)
        elif not self.listeners:
            local = Security(anonymous=True)
            self.listeners = [Listener(1883, host, security=local) for host in ("127.0.0.1", "::1")]
        for security in [self._security, *(each.security for each in self._listeners)]:
            security.anonymous = bool(security.anonymous)
        if len({(each.port, each.host) for each in self.listeners}) < len(self.listeners):
            raise RefusedError("an address that is in use")
        for listener in self.listeners:
            self._check_files(listener)

    def security(self, listener: Listener) -> Security:
        """What holds on a listener."""
        return listener.security if self._per_listener else self._security

    # -- reading

    def _read(self, file: Path, first: bool) -> None:
        current = self._default
        for raw in file.read_text().split("\n"):
            if raw.startswith("#") or not raw.strip(" "):
                continue
            name, _, rest = raw.lstrip(" ").partition(" ")
            if name == "include_dir" and first:
                if not (self._folder / rest.strip(" ")).is_dir():
                    raise RefusedError(rest)
                for each in sorted((self._folder / rest.strip(" ")).glob("*.conf")):
                    self._read(each, False)
            elif name == "listener":
                words = [each for each in rest.split(" ") if each]
                host = words[1] if len(words) > 1 and not words[1].startswith("#") else None
                self._local_only = False
                current = Listener(_number(rest, 1, 65_535), host)
                self._listeners.append(current)
            else:
                self._option(name, rest, current)

    def _option(self, name: str, rest: str, current: Listener) -> None:
        if name in ("port", "bind_address"):
            self._about_default(name, rest)
        elif name in (*_FLAGS, *_VALUES, *_OF_LISTENER):
            self._about_listener(name, rest, current)
        elif name == "per_listener_settings":
            self._per_listener = _flag(rest)
            if self._per_listener and self._secured:
                raise RefusedError(name)
        elif name in _GLOBAL_FLAGS:
            self.flags[name] = _flag(rest)
        elif name in _NUMBERS:
            self.numbers[name] = _number(rest, *_NUMBERS[name])
        elif name == "clientid_prefixes":
            self.prefix = _once(self.prefix or None, rest)
        elif name in ("allow_anonymous", "password_file", "acl_file", "plugin"):
            self._secured = True
            self._about_security(name, rest, current.security if self._per_listener else self._security)
        elif name not in (*_IGNORED, "include_dir") or not rest.strip():
            raise RefusedError(name)

    def _about_default(self, name: str, rest: str) -> None:
        self._local_only = False
        if name == "port":
            self._default.port = _number(rest, 1, 65_535)
            return
        self._default.host = _once(self._default.host, rest)
        if " " in self._default.host:
            raise RefusedError(rest)

    def _about_listener(self, name: str, rest: str, current: Listener) -> None:
        if name in _FLAGS:
            current.flags[name] = _flag(rest)
        elif name in _OF_LISTENER:
            current.numbers[name] = _number(rest, *_OF_LISTENER[name])
        elif name == "mount_point" and not self._listeners:
            raise RefusedError(name)
        else:
            current.values[name] = _word(rest) if name == "socket_domain" else _once(current.values.get(name), rest)

    def _about_security(self, name: str, rest: str, security: Security) -> None:
        if name == "allow_anonymous":
            security.anonymous = _flag(rest)
        elif name == "plugin":
            security.plugin = bool(_once(None, rest))
        else:
            security.files[name] = _once(security.files.get(name), rest)

    def _path(self, name: str) -> Path:
        return self._folder / name.removeprefix(CONTAINER)

    def _check_files(self, listener: Listener) -> None:
        names = [*self.security(listener).files.values()]
        if listener.tls:
            names += [listener.values[each] for each in ("certfile", "keyfile", "cafile") if each in listener.values]
        listener.is_whole = all(self._path(name).is_file() for name in names)
        if listener.is_whole:
            self.acl(listener)

    # -- permissions

    def name(self, listener: Listener, client: Client) -> tuple[str | None, str] | None:
        """The user name and client id that a client gets on a listener; None if it is not let in."""
        security = self.security(listener)
        required = listener.tls and listener.flags.get("require_certificate", False)
        certificate = client.common_name if required and "cafile" in listener.values else None
        if not listener.is_whole or security.plugin or (required and certificate is None):
            return None
        user = client.user
        if listener.tls and listener.flags.get("use_identity_as_username"):
            user = certificate
        elif listener.tls and listener.flags.get("use_subject_as_username"):
            user = None if certificate is None else f"CN={certificate}"
        elif not self._knows(security, client):
            return None
        by_certificate = listener.flags.get("use_identity_as_username") or listener.flags.get("use_subject_as_username")
        client_id = user if listener.flags.get("use_username_as_clientid") else client.client_id
        nameless = listener.tls and by_certificate and user is None
        return None if nameless or client_id is None or not client_id.startswith(self.prefix) else (user, client_id)

    def _knows(self, security: Security, client: Client) -> bool:
        """Whether a client is let in by its user name and password, or without."""
        if client.user is None or "password_file" not in security.files:
            return security.anonymous is not False
        known = self._path(security.files["password_file"]).read_text()
        return f"{client.user}:$" in known and client.password == _SECRETS.get(client.user)

    def acl(self, listener: Listener) -> Callable[[str | None, str, str, int], bool]:
        """What the ACL file allows, of user, client id, topic and access. Raises RefusedError."""
        name = self.security(listener).files.get("acl_file")
        if name is None:
            return lambda user, client_id, topic, access: True
        lines = _acl(self._path(name).read_text())

        def allows(user: str | None, client_id: str, topic: str, access: int) -> bool:
            own = [(own_filter, own_access) for about, own_filter, own_access in lines if about == ("user", user)]
            for own_filter, own_access in sorted(own, key=lambda each: each[1]):  # those that deny come first
                if matches(own_filter, topic) and (own_access == 0 or own_access & access):
                    return own_access != 0
            patterns = [each[1:] for each in lines if each[0][0] == "pattern"]
            for own_filter, own_access in sorted(patterns, key=lambda each: each[1] != 0):
                if "%u" in own_filter and user is None:
                    continue
                filled = own_filter.replace("%c", client_id).replace("%u", user or "")
                if matches(filled, topic) and (own_access == 0 or own_access & access):
                    return own_access != 0
            return False

        return allows

    def permits(self, listener: Listener, client: Client, topic: str, access: int) -> bool:
        """Whether a client may publish on a topic, or get its messages, on a listener."""
        who = self.name(listener, client)
        mounted = topic.startswith(listener.values.get("mount_point", ""))
        return who is not None and mounted and self.acl(listener)(*who, topic, access)


def matches(topic_filter: str, topic: str) -> bool:
    """Section 4.7 of the standard."""
    own, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") != topic_filter.startswith("$"):
        return False
    for position, level in enumerate(own):
        if level == "#":
            return True
        if position >= len(levels) or level not in ("+", levels[position]):
            return False
    return len(own) == len(levels)


def _acl(text: str) -> list[tuple[tuple[str, str | None], str, int]]:
    """About whom, filter and access of each line; access 0 denies."""
    lines: list[tuple[tuple[str, str | None], str, int]] = []
    user: str | None = None
    for raw in text.split("\n"):
        line = raw.rstrip()
        word, _, rest = line.lstrip(" ").partition(" ")
        if line.startswith("#") or not word:
            continue
        if word == "user" and rest.strip():
            user = rest.strip()
        elif word in ("topic", "pattern") and rest.strip():
            first, _, topic_filter = rest.strip().partition(" ")
            access = {"read": READ, "write": WRITE, "readwrite": READ | WRITE, "deny": 0}.get(first)
            if not topic_filter.strip():
                access, topic_filter = READ | WRITE, first
            topic_filter = topic_filter.strip()
            if access is None or any(
                ("#" in level and (level != "#" or more)) or ("+" in level and level != "+")
                for level, more in zip(topic_filter.split("/"), [*topic_filter.split("/")[1:], ""], strict=True)
            ):
                raise RefusedError(line)
            lines.append(((("user", user) if word == "topic" else ("pattern", None)), topic_filter, access))
        else:
            raise RefusedError(line)
    return lines


def _word(rest: str) -> str:
    words = [each for each in rest.split(" ") if each]
    if not words:
        raise RefusedError("no value")
    return words[0]


def _flag(rest: str) -> bool:
    found = _word(rest)
    if found not in ("true", "false", "1", "0"):
        raise RefusedError(found)
    return found in ("true", "1")


def _number(rest: str, least: int, most: int) -> int:
    found = _word(rest)
    digits = ""
    for character in found:
        if not (character.isdigit() or (character == "-" and not digits)):
            break
        digits += character
    number = int(digits) if digits.strip("-") else 0
    if not least <= number <= most:
        raise RefusedError(found)
    return number


def _once(before: str | None, rest: str) -> str:
    if before is not None or not rest.strip():
        raise RefusedError(rest)
    return rest.strip()
