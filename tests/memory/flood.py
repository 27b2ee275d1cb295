"""Attacks that open connections as fast as they can, and an honest publisher beside them.

    python -m tests.memory.flood refused|scram|sessions [--seconds 15] [--id-bytes 65000] [--clients 32]
        [--watermark 256MiB]

starts a broker, publishes at a fixed rate, attacks, and prints how much memory the broker has taken, how many of the
publisher's PUBLISHes were acknowledged a second, and how much memory is left half a minute later.
"""

import argparse
import multiprocessing
import selectors
import socket
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from scramp import ScramClient, ScramMechanism

from protocol import properties as props
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.support.brokers import start_sluice
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient

MEBIBYTE: Final = 1 << 20
LONGEST: Final = 65_000
"""Bytes of a client id that is nearly as long as MQTT allows."""
RATE: Final = 200
"""PUBLISHes a second of the honest publisher."""


NUMBER: Final = b"00000000"
"""Where the number of a connection is in its client id."""


def refused(size: int) -> bytes:
    """The CONNECT of a client that is not let in."""
    return Connect(_long_id(size), version=5).encode(5)


def scram(size: int) -> bytes:
    """A CONNECT that begins a login by SCRAM; it is left there."""
    first = ScramClient(["SCRAM-SHA-256"], "user", "password").get_client_first().encode()
    properties = {props.AUTHENTICATION_METHOD: "SCRAM-SHA-256", props.AUTHENTICATION_DATA: first}
    return Connect(_long_id(size), version=5, properties=properties).encode(5)


def session(size: int) -> bytes:
    """A session that ends at once."""
    return Connect(_long_id(size), version=5).encode(5) + Disconnect().encode(5)


def _long_id(size: int) -> str:
    return NUMBER.decode().ljust(size, "x")


ATTACKS: Final = {"refused": refused, "scram": scram, "sessions": session}


def flood(address: Address, attack: str, size: int, clients: int, stop: Callable[[int], bool]) -> int:
    """Attack until `stop` says so, which is asked with the number of connections; returns that."""
    made = 0
    selector = selectors.DefaultSelector()
    head, tail = ATTACKS[attack](size).split(NUMBER)

    def begin() -> None:
        nonlocal made
        made += 1
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(address)
        selector.register(sock, selectors.EVENT_WRITE, bytearray(b"%s%08x%s" % (head, made, tail)))

    for _ in range(clients):
        begin()
    while not stop(made):
        for key, events in selector.select(0.1):
            sock, left = key.fileobj, key.data
            assert isinstance(sock, socket.socket)
            if _over(sock, left, events, selector):
                selector.unregister(sock)
                sock.close()
                begin()
    for key in list(selector.get_map().values()):
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    return made


def _over(sock: socket.socket, left: bytearray, events: int, selector: selectors.BaseSelector) -> bool:
    """Send or read on; returns whether this connection is over."""
    try:
        if events & selectors.EVENT_WRITE:
            del left[: sock.send(left)]
            if not left:
                selector.modify(sock, selectors.EVENT_READ, left)
            return False
        return bool(sock.recv(65_536)) or True
    except BlockingIOError:
        return False
    except OSError:
        return True


class Publisher:
    """An honest client that publishes RATE times a second at QoS 1, whatever happens beside it."""

    def __init__(self, address: Address) -> None:
        self.sent = 0
        self.acknowledged = 0
        self._client = WireClient(address, 5, timeout=60)
        self._client.connect("honest")
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._publish, self._count)]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due += 1 / RATE
            self.sent += 1
            self._client.send(Publish(b"honest", b"21.5", 1, packet_id=self.sent % 65_535 + 1))
        self._client.send(Disconnect())

    def _count(self) -> None:
        with suppress(ConnectionError):  # at the end
            while True:
                self._client.receive()
                self.acknowledged += 1

    def end(self) -> None:
        """Publish no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._client.socket.close()


def configuration(attack: str, folder: Path, size: int) -> dict[str, object]:
    """What the broker is like that is attacked: no client id is too long for it if `size` says so."""
    _, stored, server, iterations = ScramMechanism("SCRAM-SHA-256").make_auth_info("secret", 4096, b"s" * 16)
    keys = {"stored_key": b64encode(stored).decode(), "server_key": b64encode(server).decode()}
    user = {"username": "user", "salt": b64encode(b"s" * 16).decode(), "iterations": iterations, **keys}
    sections: dict[str, Any] = {"log": {"level": "info", "format": "json", "max_lines": 50}}
    if size > 1_024:
        sections["mqtt"] = {"max_clientid_len": 65_535}
    if attack == "scram":
        sections["authentication"] = {"scram": [user], "failed_logins": {"per_address": "infinity"}}
    if attack == "sessions":
        sections["metrics"] = {"directory": str(folder / "metrics")}
    if attack == "refused":
        sections["mqtt"] = {"max_connections": 1}  # which the honest publisher has
    return sections


def main() -> None:
    """Attack a broker, and say what that has done to it."""
    parser = argparse.ArgumentParser(prog="python -m tests.memory.flood", description=__doc__)
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--id-bytes", type=int, default=LONGEST)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--watermark", default="infinity", help="memory_watermark of the broker")
    parser.add_argument("--default", action="store_true", help="leave mqtt.max_clientid_len as it is by default")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sections = configuration(chosen.attack, folder, 0 if chosen.default else chosen.id_bytes)
        sections["memory_watermark"] = chosen.watermark
        with start_sluice(folder, sections=sections) as broker:
            measure(broker, chosen)


def measure(broker: BrokerProcess, chosen: argparse.Namespace) -> None:
    """Attack the broker."""
    address = broker.address()
    publisher = Publisher(address)
    time.sleep(3)  # the time over which the rate is measured
    before, calm = broker.rss(), publisher.acknowledged / 3
    until = time.monotonic() + chosen.seconds
    arguments = (address, chosen.attack, chosen.id_bytes, chosen.clients, lambda _: time.monotonic() > until)
    attacker = multiprocessing.get_context("fork").Process(target=flood, args=arguments)
    sent, acknowledged, most = publisher.sent, publisher.acknowledged, before
    connects = _connects(broker)
    attacker.start()
    while time.monotonic() < until:
        time.sleep(0.1)
        most = max(most, broker.rss())
    rate = (publisher.acknowledged - acknowledged) / chosen.seconds
    offered = (publisher.sent - sent) / chosen.seconds
    attacker.join()
    print(f"{_connects(broker) - connects} connections in {chosen.seconds:g} s")
    print(f"PUBLISHes acknowledged a second: {calm:.0f} before, {rate:.0f} of {offered:.0f} meanwhile")
    print(f"resident memory: {_mib(before)} before, {_mib(most)} at most", end="", flush=True)
    for seconds in (5, 10, 15):
        time.sleep(seconds)  # memory is measured so long after the attack
        print(f", {_mib(broker.rss())}", end="", flush=True)
    print(" 5, 15 and 30 s later")
    publisher.end()


def _connects(broker: BrokerProcess) -> int:
    """Sockets that the broker has been asked for so far, by the counter of the network namespace."""
    lines = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Tcp:")]
    return int(dict(zip(*lines, strict=True))["PassiveOpens"])


def _mib(size: int) -> str:
    return f"{size / MEBIBYTE:.0f} MiB"


if __name__ == "__main__":
    main()
