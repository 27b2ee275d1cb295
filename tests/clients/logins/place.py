"""What all cells share: one broker that knows all users, behind it a service and a database, before it two proxies."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

from tests.clients.agents.base import PATH, Link
from tests.clients.catalogue import CLIENTS
from tests.clients.logins import users
from tests.clients.logins.table import Cell
from tests.support.broker.login_service import login_service
from tests.support.broker.postgres import PostgresServer, find_programs
from tests.support.broker.proxies import HOST, Hop, haproxies, lacking, nginxes
from tests.support.brokers import start_sluice
from tests.support.certificates import Certificate, Certificates, make_certificates
from tests.support.looking import CHROMIUM
from tests.support.process import Address, BrokerProcess

BAD, NOT_AUTHORIZED, NO_ANSWER = 0x86, 0x87, -1

TRANSPORTS = ("tcp", "tls", "tls-mutual", "ws", "wss", "wss-mutual")
"""Listeners. Only those that are mutual ask for certificates: a browser without any ends TLS with others that do."""

MUTUAL = "-mutual"

HAPROXY, NGINX = "127.0.0.3", "127.0.0.4"
"""The proxies' own addresses, from which nobody may do anything."""

RULES = {
    "rules": [{"permit": "allow", "topics": ["of/{username}/#"], "addresses": [HOST]}],
    "default": "deny",
}
"""Each user has topics of its own, and only from where the clients are."""


class Place:
    """The addresses of everything, and what a client needs for a cell."""

    def __init__(
        self, broker: BrokerProcess, certificates: Certificates, strange: Certificate, addresses: dict[str, Address]
    ) -> None:
        """`strange`: a certificate of an authority that nobody knows; `addresses` by way and transport."""
        self.broker = broker
        self._certificates = certificates
        self._strange = strange
        self._addresses = addresses

    def link(self, cell: Cell, secret: str = users.SECRET) -> Link:
        """How the client connects, with the right secret or another one."""
        mutual = cell.method == "certificate"
        host, port = self._addresses[f"{cell.way} {cell.transport}{MUTUAL if mutual else ''}"]
        name = f"known-{uuid4().hex[:12]}" if secret == users.SECRET else f"unknown-{uuid4().hex[:12]}"
        token = users.token() if secret == users.SECRET else users.token(b"x" * 64)
        by_name = cell.method not in ("certificate", "client_id")
        shown = self._certificates.client if secret == users.SECRET else self._strange
        return Link(
            host,
            port,
            cell.version,
            name,
            cafile=str(self._certificates.cafile) if cell.has_tls else "",
            certfile=str(shown.certfile) if mutual else "",
            keyfile=str(shown.keyfile) if mutual else "",
            username=users.USERS[cell.method] if by_name else "",
            password=(token if cell.method == "jwt" else secret) if by_name else "",
            websocket=cell.transport in ("ws", "wss"),
            scram=cell.method == "scram",
        )

    @staticmethod
    def refusal(cell: Cell) -> int:
        """The reason code for a wrong secret; a certificate of a stranger ends TLS, before MQTT."""
        if cell.method == "certificate":
            return NO_ANSWER
        return NOT_AUTHORIZED if cell.method in ("scram", "client_id") else BAD


def missing(cell: Cell) -> str:
    """What has to be installed for a cell; empty if all is there."""
    if cell.client == "chromium":
        if find_spec("playwright") is None or not CHROMIUM.exists():
            return "chromium or playwright is not installed (apt install chromium, pip install playwright)"
        if absent := CLIENTS["mqttjs"].missing():  # its page's library comes from npm
            return absent
    elif absent := CLIENTS[cell.client].missing():
        return absent
    if cell.way != "direct" and (absent := lacking(cell.way.partition("-")[0])):
        return absent
    if cell.method == "mosquitto" and users.MOSQUITTO_PASSWD is None:
        return "mosquitto_passwd is not installed (apt install mosquitto)"
    if cell.method == "postgres" and find_programs() is None:
        return "PostgreSQL is not installed (apt install postgresql)"
    return ""


@contextmanager
def place(folder: Path, workers: int = 1) -> Iterator[Place]:
    """Start all that is installed."""
    for name in ("broker", "strange", "proxies"):
        (folder / name).mkdir()
    certificates = make_certificates(folder)
    strange = make_certificates(folder / "strange").client
    with ExitStack() as stack:
        service = stack.enter_context(login_service())
        service.decide = users.decide
        database = None
        if (programs := find_programs()) is not None and find_spec("asyncpg") is not None:
            database = PostgresServer(programs, certificates.server)
            stack.callback(database.remove)
            database.start()
            users.fill(database)
        sections = {
            "allow_anonymous": None,
            "listeners": _listeners(certificates),
            "authentication": users.authentication(folder, service.url, database),
            "authorization": RULES,
            "mqtt": {"connect_timeout": users.PATIENCE},
        }
        broker = stack.enter_context(start_sluice(folder / "broker", (), sections, workers=workers))
        addresses = {f"direct {name}": broker.address(name) for name in TRANSPORTS}
        if not lacking("haproxy"):
            hops = _behind_haproxy(broker, folder, certificates)
            addresses |= _named(stack.enter_context(haproxies(folder / "proxies", hops, HAPROXY)))
        if not lacking("nginx"):
            hops = _behind_nginx(broker, certificates)
            addresses |= _named(stack.enter_context(nginxes(folder / "proxies", hops, NGINX)))
        yield Place(broker, certificates, strange, addresses)


def _listeners(certificates: Certificates) -> list[dict[str, object]]:
    """For each transport one for clients and one for proxies; and two for proxies that have ended TLS."""
    tls = {"certfile": str(certificates.server.certfile), "keyfile": str(certificates.server.keyfile)}
    mutual = {**tls, "cafile": str(certificates.cafile), "require_client_certificate": True, "username": "{cn}"}
    proxied = {"trusted": [HAPROXY, NGINX]}
    found: list[dict[str, object]] = []
    for name in TRANSPORTS:
        own: dict[str, object] = {"name": name, "bind": f"{HOST}:0"}
        if name.endswith(MUTUAL):
            own["tls"] = mutual
        elif name in ("tls", "wss"):
            own["tls"] = tls
        if name.startswith("ws"):
            own["websocket"] = {"path": PATH}
        found += [own, {**own, "name": f"{name}-proxied", "proxy_protocol": proxied}]
        if name in ("tcp", "ws"):
            found.append({**own, "name": f"{name}-ended", "proxy_protocol": {**proxied, "username": "{cn}"}})
    copied: list[dict[str, object]] = json.loads(json.dumps(found))
    return copied  # the configuration takes no aliases, which YAML would make of one object in two places


def _behind_haproxy(broker: BrokerProcess, folder: Path, certificates: Certificates) -> dict[str, Hop]:
    pem = folder / "haproxy.pem"
    pem.write_text(certificates.server.certfile.read_text() + certificates.server.keyfile.read_text())
    hops = {}
    for name in TRANSPORTS:
        to = broker.address(f"{name}-proxied")
        hops[f"haproxy-v1_{name}"] = Hop(to, "send-proxy")
        hops[f"haproxy-v2_{name}"] = Hop(to, "send-proxy-v2")
    tls = f"ssl crt {pem}"
    mutual = f"{tls} ca-file {certificates.cafile} verify required"
    for outside, inside in (("tls", "tcp-ended"), ("wss", "ws-ended")):
        hops[f"haproxy-tls_{outside}"] = Hop(broker.address(inside), "send-proxy-v2-ssl-cn", tls)
        hops[f"haproxy-tls_{outside}{MUTUAL}"] = Hop(broker.address(inside), "send-proxy-v2-ssl-cn", mutual)
    return hops


def _behind_nginx(broker: BrokerProcess, certificates: Certificates) -> dict[str, Hop]:
    hops = {f"nginx-v1_{name}": Hop(broker.address(f"{name}-proxied")) for name in TRANSPORTS}
    own = certificates.server
    tls = f"ssl_certificate {own.certfile}; ssl_certificate_key {own.keyfile};"
    for outside, inside in (("tls", "tcp-ended"), ("wss", "ws-ended")):
        hops[f"nginx-tls_{outside}"] = Hop(broker.address(inside), tls=tls)
    return hops


def _named(addresses: dict[str, Address]) -> dict[str, Address]:
    return {name.replace("_", " "): address for name, address in addresses.items()}
