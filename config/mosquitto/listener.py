"""One listener of Mosquitto, as its lines describe it, and the listener that it becomes."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from config.imported.draft import Line, Section
from config.mosquitto import values

DEFAULT_PORT: Final = 1883
_VERSIONS: Final = {"tlsv1.3": "1.3", "tlsv1.2": "1.2"}

REFUSED_PROXY: Final = "Mosquitto believes the header of any address; name those of the proxies"
IPV6: Final = "Mosquitto listens on IPv6 too: add a listener with bind \"[::]:{port}\" for that"
ANY_PATH: Final = "Mosquitto takes WebSocket at any path of the URL; this is the one that most clients use"
CERTIFICATE_ALONE: Final = (
    "Mosquitto asks these clients for a user name and password too; for Sluice the certificate authenticates them"
)


@dataclass
class Security:
    """Who may connect and what they may do: of all listeners, or with per_listener_settings of one."""

    lines: dict[str, Line] = field(default_factory=dict)

    def anonymous(self, default: bool) -> bool:
        """Whether clients without a user name may connect."""
        line = self.lines.get("allow_anonymous")
        return default if line is None else values.boolean(line.value)


@dataclass
class Listener:
    """The lines about one listener, by option; a later line replaces an earlier one."""

    made_by: Line | None = None
    """The line `listener`; None for the default listener."""
    lines: dict[str, Line] = field(default_factory=dict)
    origins: list[Line] = field(default_factory=list)
    security: Security = field(default_factory=Security)
    remarks: list[str] = field(default_factory=list)

    @property
    def used(self) -> bool:
        """Whether any line is about it."""
        return self.made_by is not None or bool(self.lines) or bool(self.security.lines)

    @property
    def by_certificate(self) -> bool:
        """Whether clients need a certificate."""
        return self._true("require_certificate") and "certfile" in self.lines

    @property
    def named_by_certificate(self) -> bool:
        """Whether their user names are those of their certificates."""
        return self.by_certificate and self._true("use_identity_as_username")

    def _true(self, option: str) -> bool:
        line = self.lines.get(option)
        return line is not None and values.boolean(line.value)

    def section(self, local_only: bool, path_of: Callable[[Line], str], taken: set[str]) -> Section:
        """The listener as we write it; its name is not in `taken`, which then has it."""
        section = Section(remarks=list(self.remarks))
        bind, *sources = self._bind(local_only)
        section.put("name", _name(bind, taken))
        section.put("bind", bind, *sources)
        if bind.startswith("0.0.0.0:") and "socket_domain" not in self.lines:
            section.remarks.append(IPV6.format(port=bind.rpartition(":")[2]))
        if "certfile" in self.lines:
            self._tls(section, path_of)
        else:
            unused = ("cafile", "keyfile", "crlfile", "require_certificate", "use_identity_as_username", "tls_version")
            section.remarks += [f"{self.lines[each]}: there is no certfile" for each in unused if each in self.lines]
        protocol = self.lines.get("protocol")
        if protocol is not None and protocol.value.startswith("websockets"):
            section.section("websocket").put("path", "/mqtt", protocol)
            section.section("websocket").remarks.append(ANY_PATH)
            if self.origins:
                origins = [line.value for line in self.origins]
                section.section("websocket").put("origins", origins, *self.origins)
        proxy = self.lines.get("enable_proxy_protocol")
        if proxy is not None:
            section.section("proxy_protocol").put("trusted", ["0.0.0.0/0", "::/0"], proxy)
            section.section("proxy_protocol").remarks.append(REFUSED_PROXY)
        return section

    def _bind(self, local_only: bool) -> list[str]:
        """The bind address, and the lines that it comes from."""
        sources = [self.lines[each] for each in ("port", "bind_address", "socket_domain") if each in self.lines]
        ipv6 = (domain := self.lines.get("socket_domain")) is not None and domain.value.startswith("ipv6")
        everywhere = "::" if ipv6 else "0.0.0.0"  # noqa: S104 - as Mosquitto binds without an address
        if self.made_by is None:
            port = self.lines.get("port")
            address = self.lines.get("bind_address")
            host = address.value if address else "127.0.0.1" if local_only else everywhere
            bind = _joined(host, port.value if port else str(DEFAULT_PORT))
            return [bind, *(map(str, sources) if sources else ["Mosquitto's default"])]
        number, *rest = self.made_by.value.split()
        host = rest[0] if rest and not rest[0].startswith("#") else ""
        if number == "0":
            return [f"unix:{host}", str(self.made_by)]
        return [_joined(host or everywhere, number), str(self.made_by), *map(str, sources)]

    def _tls(self, section: Section, path_of: Callable[[Line], str]) -> None:
        tls = section.section("tls")
        for option in ("certfile", "keyfile"):
            if option in self.lines:
                tls.put(option, path_of(self.lines[option]), self.lines[option])
        version = self.lines.get("tls_version")
        if version is not None:
            tls.put("minimum_version", _VERSIONS.get(version.value, "1.2"), version)
            if version.value not in _VERSIONS:
                tls.remarks.append(f"{version}: Sluice has TLS 1.2 and 1.3")
        about_clients = ("cafile", "crlfile", "require_certificate", "use_identity_as_username")
        if not self.by_certificate:
            tls.remarks += [
                f"{self.lines[each]}: without require_certificate Mosquitto asks for no certificate"
                for each in about_clients
                if each in self.lines and (each in ("cafile", "crlfile") or self._true(each))
            ]
            return
        for option in ("cafile", "crlfile"):
            if option in self.lines:
                tls.put(option, path_of(self.lines[option]), self.lines[option])
        tls.put("require_client_certificate", True, self.lines["require_certificate"])
        if self.named_by_certificate:
            tls.put("username", "{cn}", self.lines["use_identity_as_username"])


def _joined(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _name(bind: str, taken: set[str]) -> str:
    """A name for the listener, after its port or path."""
    last = bind.removeprefix("unix:").rpartition("/" if bind.startswith("unix:") else ":")[2]
    first = f"listener-{re.sub(r'[^A-Za-z0-9._-]', '-', last)}"[:50]
    name, number = first, 2
    while name in taken:
        name, number = f"{first}-{number}", number + 1
    taken.add(name)
    return name
