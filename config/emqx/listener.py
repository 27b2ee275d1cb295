"""One listener of EMQX, as its settings describe it, and the listener that it becomes."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from config.emqx import options, values
from config.emqx.reading import Setting
from config.files import is_there
from config.imported.draft import Finding, Section

KINDS: Final = ("tcp", "ssl", "ws", "wss")
PORTS: Final = {"tcp": 1883, "ssl": 8883, "ws": 8083, "wss": 8084}

_ANY_PROXY: Final = "EMQX believes the header of any address; name those of the proxies"
_NOT_CHECKED: Final = "EMQX looks at no password here; Sluice lets clients without one in, and checks the others"
_LEFT_OUT: Final = "the listener is left out, as it would let more in"
_BOTH: Final = "EMQX asks for a password of the user whom the certificate names; Sluice would not"
_NO_NAMES: Final = "EMQX lets clients with any user name in; Sluice believes none that nobody checks"
_EVERYBODY_HAS: Final = "EMQX's own certificate, which everybody has the key of: make one of yours"
_ALLOWS_ALL: Final = "[allow all]"
_ANYWHERE: Final = ["0.0.0.0/0", "::/0"]
_ETC: Final = "${EMQX_ETC_DIR}/"
_CERTIFICATE: Final = {"certfile": f"{_ETC}certs/cert.pem", "keyfile": f"{_ETC}certs/key.pem"}
_AUTHORITIES: Final = f"{_ETC}certs/cacert.pem"
_VERSIONS: Final = {"tlsv1.3": "1.3", "tlsv1.2": "1.2"}

Leave = Callable[[Setting, str], None]


@dataclass
class Listener:
    """The settings of one listener, by the rest of their names."""

    kind: str
    name: str
    folder: Path
    """Where emqx.conf is."""
    settings: dict[str, Setting] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    """Names of settings that have become a key, or are said already."""
    hardened: bool = False
    """Whether it is on loopback unless its address says more."""
    names_users: bool = False
    """Whether each client has a user name, that of its certificate; known after `section`."""

    @property
    def off(self) -> bool:
        """Whether EMQX does not open it; a single value in place of settings is none of a listener."""
        said = (self.take(name) for name in ("enable", "enabled"))
        bind = self.settings.get("bind")
        return (
            "" in self.settings
            or any(each is not None and not values.boolean(each.found) for each in said)
            or (bind is not None and bind.value == "0")
        )

    def take(self, name: str) -> Setting | None:
        """A setting, which then counts as taken over."""
        self.taken.add(name)
        return self.settings.get(name)

    def section(self, certificate_user: Setting | None, authenticated: bool) -> Section:
        """The listener as we write it. `certificate_user`: the setting that makes user names of certificates;
        `authenticated`: whether EMQX asks clients who they are."""
        section = Section()
        section.put("name", re.sub(r"[^A-Za-z0-9._-]", "-", f"{self.kind}-{self.name}")[:60])
        bind = self.take("bind")
        section.put("bind", self._address(bind), bind or "EMQX's default")
        self._put_authentication(section, authenticated)
        if self.kind in ("ssl", "wss"):
            self._put_tls(section.section("tls"), certificate_user)
        if self.kind in ("ws", "wss"):
            self._put_websocket(section.section("websocket"))
        proxy = self.take("proxy_protocol")
        if proxy is not None and values.boolean(proxy.found):
            section.section("proxy_protocol").put("trusted", _ANYWHERE, proxy)
            section.section("proxy_protocol").remarks.append(_ANY_PROXY)
        section.remarks += [f"{each}: as Sluice has it" for each in self._agreeing()]
        return section

    def put_session(self, section: Section, zone: Sequence[Setting]) -> None:
        """What its clients have of their own: `zone` has the settings of its zone that `OF_ZONES` names."""
        for setting in zone:
            key = options.OF_ZONES[".".join(setting.path[2:])]
            section.section("session").put(key.key, key.read(setting.found), setting)
        rate = self.take("messages_rate")
        if rate is not None and (value := values.message_rate(rate.found)) != values.INFINITY:
            section.section("session").put("producer_max_rate", value, rate)

    @property
    def zone(self) -> str:
        """The name of its zone."""
        setting = self.settings.get("zone")
        return "default" if setting is None else setting.value

    def left_out(self, certificate_user: Setting | None, authenticated: bool) -> list[Finding]:
        """Why it cannot be opened without letting more in; empty if it can. The first finding says it."""
        why: tuple[Setting, str] | None = None
        for name, setting in self.settings.items():
            found = options.reason(name, options.LEFT_OF_LISTENER)
            if found is not None and found[0] in options.GUARDS and not off(setting) and setting.value != _ALLOWS_ALL:
                why = why or (setting, found[1])
        asked = self.settings.get("enable_authn")
        if asked is not None and asked.value == "quick_deny_anonymous" and not authenticated:
            why = why or (asked, _NO_NAMES)
        if authenticated and self._asks_for_certificates and (asked is None or asked.value != "false"):
            why = why or (None if certificate_user is None else (certificate_user, _BOTH))
        if why is None:
            return []
        others = (each for each in self.settings.values() if each is not why[0])
        return [Finding(why[0], f"{why[1]}: {_LEFT_OUT}", wrong=True), *(Finding(each, _LEFT_OUT) for each in others)]

    @property
    def _asks_for_certificates(self) -> bool:
        verify = self.settings.get("ssl_options.verify")
        return self.kind in ("ssl", "wss") and verify is not None and verify.value == "verify_peer"

    @property
    def _needs_certificates(self) -> bool:
        needed = self.settings.get("ssl_options.fail_if_no_peer_cert")
        return self._asks_for_certificates and needed is not None and values.boolean(needed.found)

    def left(self) -> Iterator[Finding]:
        """Settings that are not taken over, and why; after `section`."""
        for name, setting in self.settings.items():
            if name not in self.taken:
                found = options.reason(name, options.LEFT_OF_LISTENER)
                assert found is not None  # the table has a reason for all others
                yield Finding(setting, found[1])

    def _agreeing(self) -> Iterator[Setting]:
        """Settings that say what Sluice does anyway."""
        same = {"proxy_protocol": "false", "mountpoint": "", "access_rules": _ALLOWS_ALL, "enable_authn": "true"}
        same |= {"websocket.check_origin_enable": "false", "ssl_options.fail_if_no_peer_cert": "false"}
        same |= {"enable": "true", "enabled": "true"}
        for name, value in same.items():
            if name in self.settings and self.settings[name].value == value:
                self.taken.add(name)
                yield self.settings[name]

    def _address(self, bind: Setting | None) -> str:
        text = str(PORTS[self.kind]) if bind is None else bind.value
        if text.isdigit():
            text = f"{'127.0.0.1' if self.hardened else '0.0.0.0'}:{values.whole(1, 65_535)(text)}"  # noqa: S104 - as EMQX
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdigit():
            raise ValueError(f"found {text!r:.50}: write a port, or an address and a port")
        host = host.strip("[]") or "0.0.0.0"  # noqa: S104 - as EMQX binds without an address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _put_authentication(self, section: Section, authenticated: bool) -> None:
        checked = self.take("enable_authn")
        if checked is not None and checked.value == "false":
            section.put("allow_anonymous", True, checked)
            section.remarks.append(_NOT_CHECKED)
        elif authenticated and self._needs_certificates:
            section.put("allow_anonymous", False, "EMQX asks for a password beside the certificate")
        elif authenticated and checked is not None and checked.value != "true":
            section.put("allow_anonymous", False, checked)

    def _put_tls(self, tls: Section, certificate_user: Setting | None) -> None:
        for key, default in _CERTIFICATE.items():
            given = self.take(f"ssl_options.{key}")
            tls.put(key, self._file(given.value if given else default), given or "EMQX's default")
        given = self.settings.get("ssl_options.certfile")
        if given is None or given.value.endswith(_CERTIFICATE["certfile"].removeprefix(_ETC)):
            tls.remarks.append(_EVERYBODY_HAS)
        versions = self.take("ssl_options.versions")
        if versions is not None:
            known = [_VERSIONS[each] for each in _VERSIONS if each in versions.value]
            tls.put("minimum_version", min(known, default="1.2"), versions)
        self._put_clients(tls, certificate_user)

    def _put_clients(self, tls: Section, certificate_user: Setting | None) -> None:
        """Certificates of clients."""
        verify, authorities = self.take("ssl_options.verify"), self.take("ssl_options.cacertfile")
        needed = self.take("ssl_options.fail_if_no_peer_cert")
        if not self._asks_for_certificates:
            unused = [each for each in (verify, authorities) if each is not None]
            tls.remarks += [f"{each}: EMQX asks for no certificate" for each in unused]
            return
        tls.put("cafile", self._file(authorities.value if authorities else _AUTHORITIES), authorities or verify, verify)
        if self._needs_certificates:
            tls.put("require_client_certificate", True, needed)
        if certificate_user is not None:
            tls.put("username", "{cn}", certificate_user)
            self.names_users = tls.get("require_client_certificate") is True

    def _put_websocket(self, websocket: Section) -> None:
        path = self.take("websocket.mqtt_path")
        websocket.put("path", path.value if path else "/mqtt", path or "EMQX's default")
        checked = self.take("websocket.check_origin_enable")
        origins = self.settings.get("websocket.check_origins")
        if checked is not None and values.boolean(checked.found) and origins is not None:
            self.taken.add("websocket.check_origins")
            texts = origins.value.strip("[]").split(",")
            websocket.put("origins", [each.strip() for each in texts if each.strip()], checked, origins)

    def _file(self, name: str) -> str:
        return file_of(self.folder, name)


def off(setting: Setting) -> bool:
    """Whether it is the value that switches something off, or an empty list."""
    return setting.value in ("false", "", "[]")


def file_of(folder: Path, name: str) -> str:
    """The absolute path of a file that emqx.conf names; `folder`: that of emqx.conf.

    EMQX reads it from its own directory, above `etc`; packages have /etc/emqx and /var/lib/emqx for that.
    """
    folder = folder.absolute()
    if name.startswith((_ETC, "etc/")):
        return str(folder / name.removeprefix(_ETC).removeprefix("etc/"))
    candidates = [folder.parent / name]
    if name.startswith("data/"):
        candidates.append(Path("/var/lib/emqx") / name.removeprefix("data/"))
    return str(next((each for each in candidates if is_there(each)), candidates[0]))
