"""The whole configuration as frozen pydantic models: every key, its type, unit, default and bounds.

`Mqtt`, `Authentication` and `Authorization` have files of their own (`config.mqtt`, `config.access`). Names, defaults
and units of `Session` are FLOW-CONTROL's. In every model a count or size of 0 means no limit and a duration is in
seconds with math.inf for never. Unknown keys are errors. A `Config` that exists is consistent in itself: what holds
between keys is checked here too (`config.rules`); what needs the disk (certificate files) is checked by the loader.
"""

import platform
import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from config import addresses, rules
from config.access import Authentication, Authorization
from config.layers import dotted
from config.mqtt import Mqtt
from config.value_types import (
    MAX_NAME,
    MAX_UINT16,
    Count,
    Duration,
    FiniteCount,
    FiniteDuration,
    Model,
    Name,
    Size,
    check_bind,
    check_directory,
    check_version,
)

DEFAULT_BIND: Final = "127.0.0.1:1883"
"""Where a broker without any configuration listens: this machine only, MQTT's own port."""


def _host_name() -> str:
    """This machine's name, made fit to be a node name."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node()).lstrip("._-")[:MAX_NAME]
    return name or "sluice"


class Tls(Model):
    """TLS of one listener. The files are PEM; relative paths count from the working directory."""

    certfile: Path
    """The certificate, with its chain if there is one."""
    keyfile: Path | None = None
    """The private key; None if it is in certfile."""
    cafile: Path | None = None
    """The authorities that client certificates must come from."""
    require_client_certificate: bool = False
    """Refuse clients without a valid certificate; this is the listener's authentication. Needs cafile."""
    minimum_version: Annotated[Literal["1.2", "1.3"], BeforeValidator(check_version)] = "1.2"
    """The oldest TLS version accepted."""


class Listener(Model):
    """One address that the broker accepts connections on."""

    name: Name = "default"
    bind: Annotated[str, BeforeValidator(check_bind)]
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


class Session(Model):
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


class Metrics(Model):
    """Export of the per-session metrics as Parquet files."""

    directory: Annotated[Path | None, BeforeValidator(check_directory)] = None
    """Where the files go; None = no export."""
    interval: FiniteDuration = Field(default=10.0, ge=0.1)
    """Seconds that one row covers."""
    heartbeat: Duration = Field(default=300.0, gt=0)
    """Seconds after which a session with nothing new writes a row nevertheless. math.inf = never."""


class Log(Model):
    """What the broker writes to standard error, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


def _default_listeners() -> list[Listener]:
    return [Listener(bind=DEFAULT_BIND)]


class Config(Model):
    """The whole configuration of one broker."""

    model_config = ConfigDict(hide_input_in_errors=True)  # parts of it are secret

    node_name: Name = Field(default_factory=_host_name)
    """This broker's name in metrics and logs."""
    allow_anonymous: bool | None = None
    """Whether clients without any authentication are let in. None = not written out: if there are no users."""
    listeners: list[Listener] = Field(default_factory=_default_listeners, min_length=1)
    mqtt: Mqtt = Field(default_factory=Mqtt)
    authentication: Authentication = Field(default_factory=Authentication)
    authorization: Authorization = Field(default_factory=Authorization)
    session: Session = Field(default_factory=Session)
    metrics: Metrics = Field(default_factory=Metrics)
    log: Log = Field(default_factory=Log)

    @model_validator(mode="after")
    def _hold_the_rules(self) -> "Config":
        """Refuse what is wrong only in combination; the loader reports the same, each by itself."""
        facts = [_facts(index, listener) for index, listener in enumerate(self.listeners)]
        broken = rules.broken(facts, self.allow_anonymous, bool(self.authentication.scram))
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
