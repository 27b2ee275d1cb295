"""The section `bridges`: connections that the broker opens to other brokers."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from config import bind_address
from config.ciphers import check_ciphers
from config.session import ListenerSession
from config.units import found
from config.urls import masked
from config.value_types import (
    MAX_UINT16,
    Duration,
    FiniteCount,
    FiniteDuration,
    Model,
    Name,
    Text,
    TopicFilter,
    check_path,
    check_topic_filter,
    check_version,
)

PORTS: Final = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
"""By scheme: the port of an address that names none."""
LONGEST_WAIT: Final = 3_600.0
"""Seconds, the most that may pass between two attempts."""
CLIENT_ID: Final = "$bridge/"
"""The client id of a bridge on this side is this and its name; no client may use such an id."""

_EXPECTED: Final = "write mqtt://host:port, mqtts://host:port (TLS), ws://host:port/path or wss://host:port/path"
_ADDRESS: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z]+)://)?(?P<host>\[[^]/?#]*]|[^][:/?#]*)(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:[/?][!-\"$-~]*)?)",
    re.ASCII,
)
_DEFAULT_PATH: Final = "/mqtt"
_LONGEST_PROTOCOL: Final = 255
"""Bytes: ALPN has one for the length (RFC 7301, section 3.1)."""


class RemoteAddress(NamedTuple):
    """Where a remote broker is."""

    scheme: str
    host: str
    port: int
    path: str
    """Of WebSocket, with its query; empty otherwise."""

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme in ("mqtts", "wss")

    @property
    def websocket(self) -> bool:
        """Whether MQTT is inside a WebSocket."""
        return self.scheme in ("ws", "wss")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def parse_address(value: object) -> RemoteAddress:
    """Parse the address of a remote broker. Raises ValueError, which quotes no password."""
    text = value.strip() if isinstance(value, str) else ""
    if "@" in text:
        raise ValueError(f"write the address without a user name: username and password_file are keys; {_EXPECTED}")
    address = _parsed(text)
    if address is None:
        raise ValueError(f"found {found(masked(text) if text else value)}: {_EXPECTED}")
    return address


def _parsed(text: str) -> RemoteAddress | None:
    match = _ADDRESS.fullmatch(text)
    scheme = match["scheme"].lower() if match and match["scheme"] else "mqtt"
    if match is None or scheme not in PORTS:
        return None
    path, websocket = match["path"], scheme in ("ws", "wss")
    try:
        place = bind_address.parse(f"{match['host']}:{match['port'] or PORTS[scheme]}")
    except ValueError:
        return None
    if not (place.host and place.port) or (path not in ("", "/") and not websocket):  # no host: as `unix:1`
        return None
    if not path.startswith("/"):
        path = _DEFAULT_PATH + path
    return RemoteAddress(scheme, place.host, place.port, path if websocket else "")


def _addresses(value: object) -> list[str]:
    """One address, or a list of several."""
    given = value if isinstance(value, list) else [value]
    if not given:
        raise ValueError(f"found an empty list: {_EXPECTED}")
    return [str(parse_address(each)) for each in given]


def _one_topic(value: str | None) -> str | None:
    """Refuse what would make a topic of several."""
    if value is not None and any(character in value for character in "+#"):
        raise ValueError(f"found {found(value)}: write it without + and #")
    return value


def _host(value: str | None) -> str | None:
    """Refuse what OpenSSL would not take as a name."""
    address = None if value is None else _parsed(f"[{value}]" if ":" in value else value)
    if value is not None and (address is None or address.host != value):
        raise ValueError(f"found {found(value)}: write a host name such as mqtt.example.com, or an IP address")
    return value


def _protocol(value: str) -> str:
    if not (value.isascii() and value.isprintable() and 0 < len(value) <= _LONGEST_PROTOCOL):
        raise ValueError(f"found {found(value)}: write the name of a protocol such as mqtt, 1 to 255 bytes of ASCII")
    return value


def _payload(value: str) -> str:
    size = len(value.encode())
    if size > MAX_UINT16:
        raise ValueError(f"found {size} bytes: write at most {MAX_UINT16}")
    return value


class BridgeTopic(Model):
    """Topics that go over a bridge. On either side a prefix stands before them: there may be one, two or none."""

    filter: TopicFilter | None = None
    """The topics, without the prefixes. None: only one topic, named local_prefix here and remote_prefix there."""
    direction: Literal["out", "in", "both"] = "out"
    """Whether messages go to the remote broker, come from it, or both."""
    qos: FiniteCount = Field(default=2, le=2)
    """The highest QoS; a message that has a lower one keeps it."""
    local_prefix: Annotated[str, AfterValidator(_one_topic)] = ""
    """What stands before these topics here."""
    remote_prefix: Annotated[str, AfterValidator(_one_topic)] = ""
    """What stands before these topics at the remote broker."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.filter is None and not (self.local_prefix and self.remote_prefix):
            raise ValueError("without filter, the prefixes are the two names of one topic: write both")
        for side, topics in (("local_prefix", self.local_filter), ("remote_prefix", self.remote_filter)):
            try:
                check_topic_filter(topics)
            except ValueError as error:
                raise ValueError(f"{side} and filter together: {error}") from None
        if self.comes_in and self.local_filter.split("/")[0] == "$SYS":
            raise ValueError("only the broker publishes under $SYS, no bridge: write a local_prefix such as remote/")
        return self

    @property
    def local_filter(self) -> str:
        """The topics as they are here."""
        return self.local_prefix + (self.filter or "")

    @property
    def remote_filter(self) -> str:
        """The topics as they are at the remote broker."""
        return self.remote_prefix + (self.filter or "")

    @property
    def goes_out(self) -> bool:
        """Whether messages go to the remote broker."""
        return self.direction != "in"

    @property
    def comes_in(self) -> bool:
        """Whether messages come from it."""
        return self.direction != "out"


class BridgeTls(Model):
    """TLS of a bridge. The files are PEM; paths are relative to the working directory."""

    cafile: Annotated[Path | None, BeforeValidator(check_path)] = None
    """The authorities that may have signed the remote broker's certificate; None = those of this machine."""
    certfile: Annotated[Path | None, BeforeValidator(check_path)] = None
    """The certificate that the bridge shows, and its chain; None = none."""
    keyfile: Annotated[Path | None, BeforeValidator(check_path)] = None
    """Its private key; None if it is in certfile."""
    server_name: Annotated[str | None, AfterValidator(_host)] = None
    """The name that the remote broker's certificate must have; None = the host of the address."""
    verify: bool = True
    """Whether the certificate is verified. false: whoever is on the way can read and change everything."""
    alpn: list[Annotated[str, AfterValidator(_protocol)]] = Field(default_factory=list)
    """What the bridge asks for by ALPN; empty = nothing."""
    minimum_version: Annotated[Literal["1.2", "1.3"], BeforeValidator(check_version)] = "1.2"
    """The oldest TLS version accepted."""
    ciphers: Annotated[str | None, BeforeValidator(check_ciphers)] = None
    """The ciphers of TLS 1.2, as OpenSSL names them; None = Python's secure ones."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.keyfile is not None and self.certfile is None:
            raise ValueError("keyfile is the private key of certfile: set certfile too")
        if self.ciphers is not None and self.minimum_version == "1.3":
            raise ValueError("ciphers are those of TLS 1.2: leave them out with minimum_version 1.3, which has its own")
        return self


class BridgeWill(Model):
    """The will of a bridge: the remote broker publishes it when the connection is lost."""

    topic: Annotated[Text, AfterValidator(_one_topic)]
    payload: Annotated[str, AfterValidator(_payload)] = ""
    qos: FiniteCount = Field(default=0, le=2)
    retain: bool = False


class Bridge(Model):
    """A connection to another broker, and what goes over it."""

    name: Name
    """Its name: its client id here is `$bridge/` and this."""
    enabled: bool = True
    """Whether it is there at all."""
    address: Annotated[list[str], BeforeValidator(_addresses)]
    """Where the remote broker is: one address, or several of one broker or cluster."""
    address_order: Literal["in_order", "round_robin"] = "in_order"
    """in_order: each outage begins with the first address; round_robin: with the one after the last."""
    proto_ver: Annotated[Literal["5", "3.1.1"], BeforeValidator(str)] = "5"
    """The version of MQTT."""
    try_private: bool = True
    """MQTT 3.1.1: whether the protocol level says first that this is a bridge (0x84), so that nothing comes back."""
    start: Literal["automatic", "lazy", "once"] = "automatic"
    """automatic: always connected; lazy: while there is something to send; once: until the connection ends."""
    lazy_threshold: FiniteCount = Field(default=10, ge=1)
    """lazy: so many messages have to wait until the bridge connects."""
    lazy_idle: FiniteDuration = Field(default=60.0, ge=1)
    """lazy: seconds without a message after which it disconnects."""
    client_id: Text | None = None
    """Its client id at the remote broker; None = node_name, a hyphen and its name."""
    username: Text | None = None
    """Its user name at the remote broker; None = none."""
    password_file: Annotated[Path | None, BeforeValidator(check_path)] = None
    """A file with its password there, read for each connection; None = none."""
    user: Text | None = None
    """Whose rights it has here, and whose quota; None = those of a client without a user name."""
    keepalive: FiniteDuration = Field(default=60.0, ge=1, le=MAX_UINT16)
    """Seconds between two PINGREQs while nothing comes."""
    clean_start: bool = False
    """Whether neither side keeps a session: then what is published during an outage is lost."""
    session_expiry_interval: Duration = float("inf")
    """Seconds for which the remote broker keeps the session during an outage, MQTT 5 only. math.inf = for ever."""
    reconnect_min: FiniteDuration = Field(default=1.0, ge=0.1, le=LONGEST_WAIT)
    """Seconds: the least between two attempts to connect."""
    reconnect_max: FiniteDuration = Field(default=60.0, ge=0.1, le=LONGEST_WAIT)
    """Seconds: attempts that fail come ever more rarely, up to this."""
    topics: list[BridgeTopic] = Field(min_length=1)
    """What goes over it."""
    outgoing_retain: bool = True
    """Whether RETAIN goes out as it is; some brokers do not take it."""
    state_topic: Annotated[Text | None, AfterValidator(_one_topic)] = None
    """A topic at the remote broker, where a retained 1 says that it is connected, and 0 that it is not; None = none."""
    will: BridgeWill | None = None
    """None = none, except that of state_topic."""
    tls: BridgeTls | None = None
    """With mqtts:// and wss:// only; None: all defaults."""
    session: ListenerSession | None = None
    """What of `session` is another for it; None = nothing."""

    @field_validator("keepalive")
    @classmethod
    def _whole(cls, value: float) -> float:
        if value != int(value):
            raise ValueError(f"found {value:g}s: write whole seconds, 1s to {MAX_UINT16}s")
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.reconnect_max < self.reconnect_min:
            raise ValueError("reconnect_max must not be less than reconnect_min")
        if self.password_file is not None and self.username is None and self.proto_ver == "3.1.1":
            raise ValueError("password_file without username: MQTT 3.1.1 has no such CONNECT; set username")
        if self.will is not None and self.state_topic is not None:
            raise ValueError("write state_topic or will: a connection has one will, and state_topic needs it")
        if self.tls is not None and not any(address.tls for address in self.remotes):
            raise ValueError("tls is set, but no address has TLS: write mqtts:// or wss://")
        if self.start == "lazy" and any(topic.comes_in for topic in self.topics):
            raise ValueError("start: lazy is for topics that go out: while it is not connected, none come in")
        if self.clean_start and self.start == "lazy":
            raise ValueError("start: lazy needs a session that keeps what waits: set clean_start: false")
        return self

    @property
    def remotes(self) -> list[RemoteAddress]:
        """The addresses."""
        return [parse_address(address) for address in self.address]

    @property
    def local_id(self) -> str:
        """Its client id here; also the name under which its limits are kept, and its totals."""
        return CLIENT_ID + self.name
