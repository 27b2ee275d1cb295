"""One listener of Mosquitto, as its lines describe it, and the listener that it becomes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from config.imported.bridges import free_name
from config.imported.draft import Line, Section
from config.mosquitto import values
from config.mosquitto.opening import opens

DEFAULT_PORT: Final = 1883
LOOPBACK: Final = "lo"
"""The one interface whose addresses are known."""
_NAMES: Final = ("use_identity_as_username", "use_subject_as_username")
_VERSIONS: Final = {"tlsv1.3": "1.3", "tlsv1.2": "1.2"}

REFUSED_PROXY: Final = "Mosquitto believes the header of any address; name those of the proxies"
IPV6: Final = 'Mosquitto listens on IPv6 too: add a listener with bind "[::]:{port}" for that'
INTERFACE: Final = 'Mosquitto listens on IPv6 too: add a listener with bind "[::1]:PORT" for that'
NO_PSK: Final = "TLS with pre-shared keys has no counterpart: use certificates. The listener is left out"
NO_ADDRESS: Final = (
    "Sluice binds to addresses: name that of the interface behind the port of `listener`. The listener is left out"
)
OTHER_ADDRESS: Final = (
    "the listener names an address, which is not that of this interface: remove one. The listener is left out"
)
NO_NAMES: Final = (
    "without require_certificate Mosquitto asks for no certificate, and lets nobody in: everything is denied there"
)
NO_KEY: Final = "without a keyfile Mosquitto serves this listener without TLS. The listener is left out"
NO_AUTHORITIES: Final = "Sluice needs a cafile to verify certificates. The listener is left out"
DIRECTORY: Final = (
    "the authorities have to be in one file: cat DIR/*.pem > ca.pem, then tls.cafile. The listener is left out"
)
MORE_AUTHORITIES: Final = "only those of cafile are taken: add the others to that file"
NO_HTTP: Final = "Sluice has an admin API over HTTP on an address of its own (admin.listen)"
PATHS: Final = ["/mqtt", "/"]
ANY_PATH: Final = "Mosquitto takes any path of the URL; these are those that most clients use"


@dataclass
class Security:
    """Who may connect and what they may do: of all listeners, or with per_listener_settings of one."""

    lines: dict[str, Line] = field(default_factory=dict)
    guards: list[Line] = field(default_factory=list)
    """What Sluice does not have, and what decides who may do what."""

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
    guards: list[Line] = field(default_factory=list)
    """As those of `security`."""
    remarks: list[str] = field(default_factory=list)

    @property
    def used(self) -> bool:
        """Whether Mosquitto opens it."""
        about = self.lines.items() | self.security.lines.items()
        return self.made_by is not None or any(opens(name, line) for name, line in about)

    @property
    def unserved(self) -> tuple[Line, str] | None:
        """The line for which we cannot open it, and why; None = we can."""
        protocol, hint = self.lines.get("protocol"), self.lines.get("psk_hint")
        if protocol is not None and values.word(protocol.value) == "http_api":
            return protocol, NO_HTTP
        if hint is not None and not ("certfile" in self.lines and "keyfile" in self.lines):
            return hint, NO_PSK
        if "certfile" in self.lines and "keyfile" not in self.lines:
            return self.lines["certfile"], NO_KEY
        if self.by_certificate and "cafile" not in self.lines:
            missing = self.lines.get("capath")
            return (missing, DIRECTORY) if missing else (self.lines["require_certificate"], NO_AUTHORITIES)
        interface = self.lines.get("bind_interface")
        if interface is not None and not self._unix:
            if interface.value.lower() != LOOPBACK:
                return interface, NO_ADDRESS
            if self.host not in ("", self._loopback):
                return interface, OTHER_ADDRESS
        return None

    @property
    def unnamed(self) -> Line | None:
        """The line by which Mosquitto wants the name of a certificate that it does not ask for, if there is one."""
        if self.by_certificate or "certfile" not in self.lines:
            return None
        return next((self.lines[each] for each in _NAMES if self._true(each)), None)

    @property
    def subject(self) -> Line | None:
        """The line by which user names are the whole subjects of certificates, which Sluice does not take."""
        if self.named_by_certificate or not (self.by_certificate and self._true("use_subject_as_username")):
            return None
        return self.lines["use_subject_as_username"]

    def about(self) -> list[Line]:
        """All lines about it."""
        made_by = [] if self.made_by is None else [self.made_by]
        return [*made_by, *self.lines.values(), *self.security.lines.values(), *self.origins]

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
        if "bind_interface" in self.lines and "socket_domain" not in self.lines and not self.host:
            section.remarks.append(f"{self.lines['bind_interface']}: {INTERFACE}")
        if bind.startswith("0.0.0.0:") and "socket_domain" not in self.lines:
            section.remarks.append(IPV6.format(port=bind.rpartition(":")[2]))
        if "certfile" in self.lines:
            self._tls(section, path_of)
        else:
            unused = ("cafile", "keyfile", "crlfile", "require_certificate", *_NAMES, "tls_version")
            section.remarks += [f"{self.lines[each]}: there is no certfile" for each in unused if each in self.lines]
        protocol = self.lines.get("protocol")
        if protocol is not None and values.word(protocol.value) == "websockets":
            section.section("websocket").put("path", PATHS, protocol)
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
        about = ("port", "bind_address", "socket_domain", "bind_interface")
        sources = [self.lines[each] for each in about if each in self.lines]
        everywhere = "::" if self._ipv6 else "0.0.0.0"  # noqa: S104 - as Mosquitto binds without an address
        if "bind_interface" in self.lines:
            everywhere = self._loopback
        if self.made_by is None:
            port = self.lines.get("port")
            host = self.host or ("127.0.0.1" if local_only and not self.used else everywhere)
            bind = _joined(host, _number(port) if port else str(DEFAULT_PORT))
            return [bind, *(map(str, sources) if sources else ["Mosquitto's default"])]
        if self._unix:
            return [f"unix:{self.host}", str(self.made_by)]
        return [_joined(self.host or everywhere, _number(self.made_by)), str(self.made_by), *map(str, sources)]

    @property
    def _unix(self) -> bool:
        return self.made_by is not None and int(values.word(self.made_by.value)) == 0

    @property
    def host(self) -> str:
        """The address, or the path of a Unix socket, that the lines name; empty = none."""
        if self.made_by is None:
            address = self.lines.get("bind_address")
            return address.value if address else ""
        rest = self.made_by.value.split(" ")[1:]
        rest = [each for each in rest if each]
        return rest[0] if rest and not rest[0].startswith("#") else ""

    @property
    def _loopback(self) -> str:
        return "::1" if self._ipv6 else "127.0.0.1"

    @property
    def _ipv6(self) -> bool:
        domain = self.lines.get("socket_domain")
        return domain is not None and domain.value.startswith("ipv6")

    def _tls(self, section: Section, path_of: Callable[[Line], str]) -> None:
        tls = section.section("tls")
        for option in ("certfile", "keyfile"):
            if option in self.lines:
                tls.put(option, path_of(self.lines[option]), self.lines[option])
        version = self.lines.get("tls_version")
        if version is not None:
            tls.put("minimum_version", _VERSIONS.get(version.value.strip(), "1.2"), version)
            if version.value.strip() not in _VERSIONS:
                tls.remarks.append(f"{version}: Sluice has TLS 1.2 and 1.3")
        about_clients = ("cafile", "crlfile", "require_certificate", *_NAMES)
        if not self.by_certificate:
            tls.remarks += [
                f"{self.lines[each]}: without require_certificate Mosquitto asks for no certificate"
                for each in about_clients
                if each in self.lines
                and (each in ("cafile", "crlfile") or self._true(each))
                and self.lines[each] is not self.unnamed
            ]
            return
        for option in ("cafile", "crlfile"):
            if option in self.lines:
                tls.put(option, path_of(self.lines[option]), self.lines[option])
        tls.put("require_client_certificate", True, self.lines["require_certificate"])
        if self.named_by_certificate:
            tls.put("username", "{cn}", self.lines["use_identity_as_username"])
        used = ("use_identity_as_username" if self.named_by_certificate else "", self.subject)
        for each in _NAMES:
            line = self.lines.get(each)
            if line is not None and each not in used and line not in used:
                tls.remarks.append(f"{line}: it does not decide about the user name")


def _number(line: Line) -> str:
    return str(int(values.word(line.value)))


def _joined(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _name(bind: str, taken: set[str]) -> str:
    """A name for the listener, after its port or path."""
    last = bind.removeprefix("unix:").rpartition("/" if bind.startswith("unix:") else ":")[2]
    return free_name(f"listener-{last}", taken)
