"""Real proxies in front of a broker: HAProxy and nginx (Debian: apt install haproxy nginx libnginx-mod-stream)."""

import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.process import Address, free_port
from tests.support.waiting import wait_until

HOST = "127.0.0.1"
PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin"
MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")


@dataclass(frozen=True)
class Hop:
    """One address of a proxy, and the address of the broker behind it."""

    to: Address
    sends: str = ""
    """HAProxy: how it says who the client is."""
    tls: str = ""
    """Its own TLS, as it is written: of HAProxy behind `bind`, of nginx in the block."""


def lacking(name: str) -> str:
    """What has to be installed for a proxy; empty if it is there."""
    if shutil.which(name, path=PLACES) is None:
        return f"{name} is not installed (Debian: apt install {name})"
    if name == "nginx" and not MODULE.exists():
        return "nginx has no module for TCP (Debian: apt install libnginx-mod-stream)"
    return ""


def program(name: str) -> str:
    """The path of a proxy; the test is skipped where it is not installed."""
    if missing := lacking(name):
        pytest.skip(missing)
    return str(shutil.which(name, path=PLACES))


@contextmanager
def haproxy(folder: Path, to: Address, sends: str, bind: str = "") -> Iterator[Address]:
    """HAProxy in front of an address; `sends`: how it says who the client is; `bind`: its own TLS."""
    with haproxies(folder, {"only": Hop(to, sends, bind)}) as addresses:
        yield addresses["only"]


@contextmanager
def nginx(folder: Path, to: Address) -> Iterator[Address]:
    """nginx in front of an address, with headers of version 1."""
    with nginxes(folder, {"only": Hop(to)}) as addresses:
        yield addresses["only"]


@contextmanager
def haproxies(folder: Path, hops: Mapping[str, Hop], source: str = "") -> Iterator[dict[str, Address]]:
    """One HAProxy with several addresses, which connects to the broker from its own address `source`."""
    addresses = {name: Address(HOST, free_port()) for name in hops}
    lines = ["defaults", " mode tcp", " timeout connect 5s", " timeout client 60s", " timeout server 60s"]
    own = f" source {source}" if source else ""
    for name, hop in hops.items():
        bind = f" bind {HOST}:{addresses[name].port} {hop.tls}"
        server = f" server only {hop.to.host}:{hop.to.port} {hop.sends}{own}"
        lines += [f"frontend {name}", bind, f" default_backend {name}", f"backend {name}", server]
    file = folder / "haproxy.cfg"
    file.write_text("\n".join(lines) + "\n")
    with _running([program("haproxy"), "-db", "-f", str(file)], folder / "haproxy.log", addresses):
        yield addresses


@contextmanager
def nginxes(folder: Path, hops: Mapping[str, Hop], source: str = "") -> Iterator[dict[str, Address]]:
    """One nginx with several addresses, which sends headers of version 1; `source` as above."""
    addresses = {name: Address(HOST, free_port()) for name in hops}
    own = f"proxy_bind {source};" if source else ""
    servers = [
        f"server {{ listen {HOST}:{addresses[name].port}{' ssl' if hop.tls else ''}; {hop.tls} {own} "
        f"proxy_pass {hop.to.host}:{hop.to.port}; proxy_protocol on; }}"
        for name, hop in hops.items()
    ]
    file = folder / "nginx.conf"
    path = program("nginx")
    file.write_text(
        f"load_module {MODULE};\ndaemon off;\nmaster_process off;\npid {folder}/nginx.pid;\n"
        "error_log stderr;\nevents {}\nstream {\n" + "\n".join(servers) + "\n}\n"
    )
    with _running([path, "-c", str(file), "-e", "stderr"], folder / "nginx.log", addresses):
        yield addresses


@contextmanager
def _running(command: list[str], said: Path, addresses: Mapping[str, Address]) -> Iterator[None]:
    with said.open("wb") as log:
        process = subprocess.Popen(command, cwd=said.parent, stdout=log, stderr=log)

    def accepts() -> bool:
        assert process.poll() is None, said.read_text()
        for address in addresses.values():
            with socket.socket() as probe:
                if probe.connect_ex(address) != 0:
                    return False
        return True

    try:
        wait_until(accepts, "the proxy listens")
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
