"""The whole configuration as frozen pydantic models: every key, its type, unit, default and bounds.

Most sections have files of their own: `config.mqtt`, `config.access`, `config.session`, `config.address_settings` and
`config.admin`. In every model a count, size or rate of 0 means no limit (of a `Window`, where 0 has a meaning, -1) and
a duration is in seconds with math.inf for never. Unknown keys are errors. A `Config` that exists is consistent in
itself: what holds between keys is checked here too (`config.rules`, `config.address_rules`); what needs the disk
(certificate files) is checked by the loader.
"""

import platform
import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from config import address_rules, addresses, rules
from config.access import Authentication, Authorization
from config.address_settings import AddressSettings, Paging
from config.admin import Admin
from config.layers import dotted
from config.mqtt import Mqtt
from config.session import Session
from config.value_types import (
    MAX_NAME,
    Duration,
    FiniteDuration,
    Model,
    Name,
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
    addresses: list[AddressSettings] = Field(default_factory=list)
    """FC-24: topics that have limits of their own; empty = none has."""
    paging: Paging = Field(default_factory=Paging)
    admin: Admin = Field(default_factory=Admin)
    metrics: Metrics = Field(default_factory=Metrics)
    log: Log = Field(default_factory=Log)

    @model_validator(mode="after")
    def _hold_the_rules(self) -> "Config":
        """Refuse what is wrong only in combination; the loader reports the same, each by itself."""
        facts = [_facts(index, listener) for index, listener in enumerate(self.listeners)]
        broken = rules.broken(facts, self.allow_anonymous, bool(self.authentication.scram))
        broken += address_rules.broken(
            [dict(address) for address in self.addresses],
            self.paging.directory is not None,
            [dict(priority) for priority in self.session.mqueue_priorities],
        )
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
