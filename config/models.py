"""The whole configuration as frozen pydantic models: every key, its type, unit, default and bounds.

Most sections have files of their own: `config.mqtt`, `config.access`, `config.session`, `config.address_settings`,
`config.quota`, `config.drop_events` and `config.admin`. In every model a count, size or rate of 0 means no limit (for a
`Window`, -1). Durations are in seconds, math.inf is never. Unknown keys are errors. `Config` also checks the rules
between keys (`config.rules`, `config.address_rules`); the loader checks what is on disk (certificate files).
"""

import platform
import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from config import address_rules, admin_rules, bind_address, bridge_rules, cluster_rules, drop_events, rules
from config.access import Authentication, Authorization
from config.address_settings import AddressSettings
from config.admin import Admin
from config.bridge import Bridge
from config.cluster import CELL, CELL_FULL, LINKS, LINKS_FULL, Cluster
from config.drop_events import DropEvents
from config.layers import dotted
from config.mqtt import Mqtt
from config.persistence import Persistence
from config.quota import Quota
from config.rule import Network
from config.session import ListenerSession, Session
from config.tls import Tls
from config.units import found
from config.value_types import (
    AUTO,
    MAX_NAME,
    Count,
    Duration,
    FiniteDuration,
    Model,
    Name,
    WatermarkSize,
    check_bind,
    check_directory,
    check_mode,
    check_template,
    check_url_paths,
)

DEFAULT_BIND: Final = "127.0.0.1:1883"
"""The bind address without configuration: this machine only, MQTT's port."""

CHECKED: Final = {"addresses", "bridges", "quotas", "admin", "mqtt"}
"""Sections that `config.cluster_rules` looks at."""

_ORIGIN: Final = re.compile(
    r"null|[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)
"""RFC 6454, section 6.2: `null` is that of pages without one, such as files."""


def host_name() -> str:
    """This machine's name as a valid node name."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node()).lstrip("._-")[:MAX_NAME]
    return name or "sluice"


def _check_origin(value: str) -> str:
    """Refuse what no browser sends: it would match no page."""
    match = _ORIGIN.fullmatch(value)
    if match is None or int(match["port"] or 0) > bind_address.MAX_PORT:
        raise ValueError(
            f"found {found(value)}: write an origin as browsers send it, in lower case and without a path, "
            "such as https://example.com or http://localhost:8080"
        )
    return value


class WebSocket(Model):
    """MQTT over WebSocket on one listener."""

    path: Annotated[list[str], BeforeValidator(check_url_paths)] = Field(default_factory=lambda: ["/mqtt"])
    """The paths of the URL at which MQTT is; written as one text, or as a list of several."""
    origins: list[Annotated[str, AfterValidator(_check_origin)]] = Field(default_factory=list)
    """The origins that may connect, such as `https://example.com`, and clients without one; empty = any."""


class ProxyProtocol(Model):
    """The PROXY protocol, versions 1 and 2, on one listener: each connection begins with a header."""

    trusted: list[Network] = Field(min_length=1)
    """IP addresses or networks of the proxies; others are refused. On a Unix socket `mode` decides who is trusted."""
    username: Annotated[str | None, BeforeValidator(check_template)] = None
    """The user name of a client whose certificate the proxy has verified: a text with `{cn}`; None = none.

    A user by `tls.username` comes first.
    """


class Listener(Model):
    """One bind address on which the broker accepts connections."""

    name: Name = "default"
    bind: Annotated[str, BeforeValidator(check_bind)]
    """`host:port` or `[IPv6 address]:port`; port 0 is any free port. `unix:PATH`, or `systemd:NAME`."""
    mode: Annotated[str, BeforeValidator(check_mode)] = "0660"
    """Who may connect to a Unix socket, as permissions of its file, octal."""
    reuse_port: bool = False
    """Whether another process of this user may listen on the same address and port (SO_REUSEPORT): the next broker."""
    allow_anonymous: bool | None = None
    """Whether clients may connect to it without authentication. None = as the whole broker says."""
    tls: Tls | None = None
    """None: plain TCP."""
    websocket: WebSocket | None = None
    """None: MQTT without WebSocket."""
    proxy_protocol: ProxyProtocol | None = None
    """None: clients connect directly."""
    session: ListenerSession | None = None
    """FC-39: what of `session` is another for its clients; None = nothing."""

    @property
    def address(self) -> bind_address.BindAddress:
        """What `bind` says."""
        return bind_address.parse(self.bind)

    @property
    def host(self) -> str:
        """The host part of `bind`: a name or an address, without brackets."""
        return self.address.host

    @property
    def port(self) -> int:
        """The port part of `bind`; 0 means any free port."""
        return self.address.port


class Metrics(Model):
    """Export of the per-session metrics as Parquet files."""

    directory: Annotated[Path | None, BeforeValidator(check_directory)] = None
    """The directory of the files; None = no export."""
    interval: FiniteDuration = Field(default=10.0, ge=0.1)
    """Seconds between two exports: one row covers one interval."""
    heartbeat: Duration = Field(default=300.0, gt=0)
    """Seconds after which an idle session writes a row anyway. math.inf = never."""
    keep: Duration = Field(default=30 * 86_400.0, ge=86_400)
    """Seconds after which the broker deletes its files, by their hour. math.inf = never."""


class Log(Model):
    """The log, which goes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"
    """`console` is text; in systemd's journal lines have fields too."""
    max_lines: Count = 50
    """Lines of one event in ten seconds, from one listener or user. 0 = no limit."""


def _default_listeners() -> list[Listener]:
    return [Listener(bind=DEFAULT_BIND)]


class Config(Model):
    """The whole configuration of one broker."""

    model_config = ConfigDict(hide_input_in_errors=True)  # parts of it are secret

    node_name: Name = Field(default_factory=host_name)
    """This broker's name in metrics and logs."""
    allow_anonymous: bool | None = None
    """Whether clients may connect without authentication. None = not set: only if there are no users."""
    memory_watermark: WatermarkSize = AUTO
    """FC-32: resident bytes of the process at which nothing new is taken on. 0 = never; AUTO = `config.memory` says."""
    listeners: list[Listener] = Field(default_factory=_default_listeners, min_length=1)
    mqtt: Mqtt = Field(default_factory=Mqtt)
    authentication: Authentication = Field(default_factory=Authentication)
    authorization: Authorization = Field(default_factory=Authorization)
    session: Session = Field(default_factory=Session)
    addresses: list[AddressSettings] = Field(default_factory=list)
    """FC-24: limits of topics; empty = no topic has one."""
    quotas: list[Quota] = Field(default_factory=list)
    """FC-31: how much users may use; empty = as much as they want."""
    drop_events: DropEvents | None = None
    """FC-35: who is told of each delivery that is dropped. None = nobody."""
    bridges: list[Bridge] = Field(default_factory=list)
    """Connections that the broker opens to other brokers; empty = none."""
    cluster: Cluster = Field(default_factory=Cluster)
    """Processes that serve the clients behind one port."""
    persistence: Persistence = Field(default_factory=Persistence)
    admin: Admin = Field(default_factory=Admin)
    metrics: Metrics = Field(default_factory=Metrics)
    log: Log = Field(default_factory=Log)

    @property
    def profiles(self) -> dict[str, Session]:
        """FC-39: flow control of the listeners and bridges that have keys of `session` of their own, by their names."""
        own = [(each.name, each.session) for each in self.listeners]
        own += [(each.local_id, each.session) for each in self.bridges]
        profiles = {name: session.over(self.session) for name, session in own if session is not None}
        if self.cluster.count > 1:
            profiles[CELL] = self.session.model_copy(update=LINKS)
            full = LINKS_FULL | {"max_mqueue_bytes": self.cluster.link_queue}
            profiles[CELL_FULL] = self.session.model_copy(update=full)
        return profiles

    @property
    def denies_by_default(self) -> bool:
        """Whether what no rule is about is denied if `authorization.default` is not set."""
        return self.authorization.acl_file is not None or self.authentication.has_users

    @model_validator(mode="after")
    def _check_rules(self) -> "Config":
        """Refuse values that are wrong in combination; the loader reports them one by one."""
        problems = self.problems()
        if problems:
            raise PydanticCustomError(rules.ERROR_TYPE, "{problems}", {"problems": problems})
        return self

    def problems(self) -> str:
        """What is wrong in combination; empty if nothing is."""
        facts = [_facts(index, listener) for index, listener in enumerate(self.listeners)]
        broken = rules.broken(facts, self.allow_anonymous, self.authentication.has_users)
        broken += rules.same_bridges([bridge.name for bridge in self.bridges])
        broken += bridge_rules.broken([dict(bridge) for bridge in self.bridges], self.node_name)
        broken += address_rules.broken(
            [dict(address) for address in self.addresses],
            self.persistence.directory is not None,
            [dict(priority) for priority in self.session.mqueue_priorities],
        )
        listen = None if self.admin.listen is None else bind_address.parse(self.admin.listen)
        way_in = bool(self.admin.tokens) or self.admin.socket is not None
        broken += admin_rules.broken(listen, self.admin.tls is not None, way_in)
        if self.cluster.count > 1:
            broken += cluster_rules.broken(self.cluster.count, self.model_dump(include=CHECKED))
        if self.drop_events is not None:
            broken += drop_events.broken(self.drop_events.topic, self.mqtt.max_topic_levels)
        return "; ".join(f"{dotted(problem.path)}: {problem.message}" for problem in broken)


def _facts(index: int, listener: Listener) -> rules.ListenerFacts:
    tls = listener.tls
    return rules.ListenerFacts(
        index=index,
        name=listener.name,
        address=bind_address.parse(listener.bind),
        client_certificate=tls is not None and tls.require_client_certificate,
        has_cafile=tls is not None and tls.cafile is not None,
        anonymous=listener.allow_anonymous,
    )
