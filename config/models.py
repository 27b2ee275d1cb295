"""The whole configuration as frozen pydantic models: every key, its type, unit, default and bounds.

Names, defaults and units of `Session` are FLOW-CONTROL's. In every model a count or size of 0 means no limit
and a duration is in seconds with math.inf for never. Unknown keys are errors. A `Config` that exists is
consistent in itself: what holds between keys is checked here too (`config.rules`); what needs the disk
(certificate files) is checked by the loader.
"""

import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from config import addresses, rules, units
from config.layers import dotted

WRITTEN: Final = "written"
"""Key of the validation context that says: a person wrote these values, so a duration needs its unit."""

DEFAULT_BIND: Final = "127.0.0.1:1883"
"""Where a broker without any configuration listens: this machine only, MQTT's own port."""

MAX_NAME: Final = 64
"""Characters of a node or listener name: it becomes part of file names."""

SMALLEST_MAX_PACKET: Final = 256
"""Bytes; below this, ordinary CONNECT and SUBSCRIBE packets no longer fit."""

LARGEST_PACKET: Final = 5 + 268_435_455
"""Bytes; the largest packet that MQTT can express: fixed header and largest remaining length (2.1.4)."""

MOST_TOPIC_LEVELS: Final = 256
"""Matching takes one call per level, and the interpreter's stack is good for no more than about a thousand."""

MAX_UINT16: Final = 65_535
"""Packet ids, Receive Maximum and string lengths are 16-bit numbers in MQTT."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


@dataclass(frozen=True)
class Written:
    """Marks a field whose written form differs from its loaded value, and says how to write it."""

    format: Callable[[Any], object]


def _duration(value: object, info: ValidationInfo) -> float:
    return units.parse_duration(value, bare_numbers=not (info.context or {}).get(WRITTEN, False))


def _finite_duration(value: object, info: ValidationInfo) -> float:
    bare_numbers = not (info.context or {}).get(WRITTEN, False)
    return units.parse_duration(value, bare_numbers=bare_numbers, unlimited=False)


def _finite_size(value: object) -> int:
    return units.parse_size(value, unlimited=False)


def _finite_count(value: object) -> int:
    return units.parse_count(value, unlimited=False)


def _name(value: object) -> object:
    """Refuse what could not begin a file name; Spark skips files that begin with a dot or underscore."""
    if isinstance(value, str) and (not _NAME.fullmatch(value) or len(value) > MAX_NAME):
        raise ValueError(
            f"found {units.found(value)}: write 1 to {MAX_NAME} of the characters A-Z a-z 0-9 . _ -, "
            "beginning with a letter or digit"
        )
    return value


def _bind(value: object) -> str:
    return addresses.parse(value).text


def _directory(value: object) -> object:
    if value == "":
        raise ValueError("found an empty path: write a directory, or leave the key out for no export")
    return value


def _factor(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"found {units.found(value)}: write a number such as 1.5")
    return value


def _version(value: object) -> object:
    """Take `1.2` and `1.3` without quotes too, which YAML reads as numbers."""
    return str(value) if isinstance(value, float) else value


def _host_name() -> str:
    """This machine's name, made fit to be a node name."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node()).lstrip("._-")[:MAX_NAME]
    return name or "sluice"


Duration = Annotated[float, BeforeValidator(_duration), Written(units.format_duration)]
Size = Annotated[int, BeforeValidator(units.parse_size), Written(units.format_size)]
Count = Annotated[int, BeforeValidator(units.parse_count), Written(units.format_count)]
FiniteDuration = Annotated[float, BeforeValidator(_finite_duration), Written(units.format_duration)]
FiniteSize = Annotated[int, BeforeValidator(_finite_size), Written(units.format_size)]
FiniteCount = Annotated[int, BeforeValidator(_finite_count)]
Name = Annotated[str, BeforeValidator(_name)]


class _Model(BaseModel):
    """What all models share: nothing changes after loading, and an unknown key is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Tls(_Model):
    """TLS of one listener. The files are PEM; relative paths count from the working directory."""

    certfile: Path
    """The certificate, with its chain if there is one."""
    keyfile: Path | None = None
    """The private key; None if it is in certfile."""
    cafile: Path | None = None
    """The authorities that client certificates must come from."""
    require_client_certificate: bool = False
    """Refuse clients without a valid certificate; this is the listener's authentication. Needs cafile."""
    minimum_version: Annotated[Literal["1.2", "1.3"], BeforeValidator(_version)] = "1.2"
    """The oldest TLS version accepted."""


class Listener(_Model):
    """One address that the broker accepts connections on."""

    name: Name = "default"
    bind: Annotated[str, BeforeValidator(_bind)]
    """`host:port` or `[IPv6 address]:port`; port 0 takes any free port."""
    tls: Tls | None = None
    """None: plain TCP."""

    @property
    def host(self) -> str:
        """The host part of `bind`: a name or an address, without brackets."""
        return addresses.parse(self.bind).host

    @property
    def port(self) -> int:
        """The port part of `bind`; 0 means any free port."""
        return addresses.parse(self.bind).port


class Mqtt(_Model):
    """Limits and times of the protocol itself."""

    max_packet_size: FiniteSize = Field(default=1024 * 1024, ge=SMALLEST_MAX_PACKET, le=LARGEST_PACKET)
    """Bytes of the largest packet accepted, fixed header included; told to MQTT 5 clients in CONNACK."""
    max_topic_levels: FiniteCount = Field(default=128, ge=1, le=MOST_TOPIC_LEVELS)
    """Levels (parts between slashes) of the deepest topic name or filter accepted."""
    max_clientid_len: FiniteCount = Field(default=MAX_UINT16, ge=23, le=MAX_UINT16)
    """Bytes of the longest client id accepted; servers must take 23 [MQTT-3.1.3-5]."""
    connect_timeout: Duration = Field(default=15.0, gt=0)
    """Seconds from accepting a connection to its CONNECT; then it is closed."""
    keepalive_multiplier: Annotated[float, BeforeValidator(_factor)] = Field(
        default=1.5, ge=1, le=100, allow_inf_nan=False
    )
    """How many keepalive times of silence close a connection; the standard says 1.5 [MQTT-3.1.2-22]."""
    session_expiry_interval: Duration = 7200.0
    """Seconds that a 3.1.1 session without clean session outlives its connection."""
    max_session_expiry_interval: Duration = float("inf")
    """The most seconds that an MQTT 5 client gets when it asks for a Session Expiry Interval."""
    max_connections: Count = 0
    """Connections at once over all listeners; past it CONNECT is refused. 0 = no limit."""


class Session(_Model):
    """Flow control of each session: names, defaults and units of FLOW-CONTROL."""

    max_inflight: Count = Field(default=32, le=MAX_UINT16)
    """FC-1: deliveries of QoS 1 and 2 in the window. 0 = no limit of ours."""
    max_mqueue_len: Count = 1000
    """FC-5: deliveries in the mqueue. 0 = no limit."""
    max_mqueue_bytes: Size = 0
    """FC-5: payload bytes in the mqueue. 0 = no limit."""
    mqueue_overflow: Literal["drop_oldest", "drop_oldest_qos0", "drop_newest"] = "drop_oldest"
    """FC-5: which delivery makes room when the mqueue is full."""
    mqueue_store_qos0: bool = True
    """FC-7: whether sessions that are offline queue QoS 0."""
    retry_interval: Duration = Field(default=30.0, gt=0)
    """FC-8: seconds after which a connected 3.1.1 session resends. math.inf = never."""
    receive_maximum: FiniteCount = Field(default=32, ge=1, le=MAX_UINT16)
    """FC-20: QoS 1 and 2 PUBLISHes that an MQTT 5 client may have unacknowledged."""
    receive_maximum_policy: Literal["disconnect", "tolerate"] = "disconnect"
    """FC-20: what happens to a client that exceeds receive_maximum."""
    max_awaiting_rel: Count = 100
    """FC-22: QoS 2 packet ids that wait for their PUBREL. 0 = no limit."""
    await_rel_timeout: Duration = Field(default=300.0, gt=0)
    """FC-22: seconds after which such an id is forgotten. math.inf = never."""


class Metrics(_Model):
    """Export of the per-session metrics as Parquet files."""

    directory: Annotated[Path | None, BeforeValidator(_directory)] = None
    """Where the files go; None = no export."""
    interval: FiniteDuration = Field(default=10.0, ge=0.1)
    """Seconds that one row covers."""
    heartbeat: Duration = Field(default=300.0, gt=0)
    """Seconds after which a session with nothing new writes a row nevertheless. math.inf = never."""


class Log(_Model):
    """What the broker writes to standard error, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


def _default_listeners() -> list[Listener]:
    return [Listener(bind=DEFAULT_BIND)]


class Config(_Model):
    """The whole configuration of one broker."""

    node_name: Name = Field(default_factory=_host_name)
    """This broker's name in metrics and logs."""
    allow_anonymous: bool | None = None
    """Whether clients without any authentication are let in. None = not written out: on loopback only."""
    listeners: list[Listener] = Field(default_factory=_default_listeners, min_length=1)
    mqtt: Mqtt = Field(default_factory=Mqtt)
    session: Session = Field(default_factory=Session)
    metrics: Metrics = Field(default_factory=Metrics)
    log: Log = Field(default_factory=Log)

    @model_validator(mode="after")
    def _hold_the_rules(self) -> "Config":
        """Refuse what is wrong only in combination; the loader reports the same, each by itself."""
        facts = [_facts(index, listener) for index, listener in enumerate(self.listeners)]
        broken = rules.broken(facts, self.allow_anonymous)
        if broken:
            text = "; ".join(f"{dotted(problem.path)}: {problem.message}" for problem in broken)
            raise PydanticCustomError(rules.ERROR_TYPE, "{problems}", {"problems": text})
        return self


def _facts(index: int, listener: Listener) -> rules.ListenerFacts:
    tls = listener.tls
    return rules.ListenerFacts(
        index=index,
        name=listener.name,
        address=addresses.parse(listener.bind),
        client_certificate=tls is not None and tls.require_client_certificate,
        has_cafile=tls is not None and tls.cafile is not None,
    )
