"""A hundred reloads under load: no message is lost, nobody is disconnected, and nothing is kept of them."""

import re
import threading
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import pytest
import yaml

from protocol.ping import Pingreq, Pingresp
from tests.bench.flow_clients import Consumer, Loop, Producer
from tests.broker.conftest import Start
from tests.support.broker.admin import request
from tests.support.broker.events import wait_for_event
from tests.support.brokers import Listener
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once

WARM_UP: Final = 30
"""Reloads after which the allocator has what it needs."""
RELOADS: Final = 100
MOST_GROWTH: Final = 1 << 20
"""Bytes by which the process may grow over RELOADS: several times more if each kept its configuration."""
WINDOW: Final = 50
AHEAD: Final = 500
"""Messages by which the publisher may be ahead: fewer than an mqueue takes, so that only a reload could lose one."""


def changed(number: int) -> dict[str, Any]:
    """Sections that are others each time: limits, rules, quotas, tokens, the log's level and the watermark."""
    token = {"name": f"t{number}", "sha256": f"{number:064x}", "role": "viewer"}
    rule = {"permit": "deny", "topics": [f"secret/{number}/#"]}
    return {
        "admin": {"socket": "a.sock", "tokens": [token]},
        "session": {"max_mqueue_len": 1000 + number},
        "authorization": {"rules": [rule, {"permit": "allow", "topics": ["#"]}]},
        "quotas": [{"max_connections": 100 + number}],
        "log": {"level": "warning" if number % 2 else "info", "format": "json"},
        "memory_watermark": f"{1000 + number}MiB",
    }


class Load(threading.Thread):
    """A publisher that always has WINDOW messages under way, and a subscriber."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(name="load")
        self.consumer = Consumer(broker.address(), "load/t")
        self.producer = Producer(broker.address(), "load/t", 64, WINDOW, self._may_go)
        self.failed: Exception | None = None
        self._loop = Loop([self.producer, self.consumer])

    def run(self) -> None:
        """Until the producer is stopped, and everything has come."""
        try:
            self._loop.run(300, self._is_over)
        except Exception as error:
            self.failed = error

    def _may_go(self, number: int) -> bool:
        return number - len(self.consumer.numbers) < AHEAD

    def _is_over(self) -> bool:
        producer = self.producer
        return not producer.going and len(self.consumer.numbers) == producer.acknowledged == producer.sent

    def is_past(self, number: int) -> bool:
        """Whether more messages than that have been acknowledged, or it has failed."""
        return self.failed is not None or self.producer.acknowledged > number

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.close()

    def stop(self) -> None:
        """Publish no more, and wait for what is under way."""
        self.producer.going = False
        self.join()


def test_a_hundred_times(start: Start, tmp_path: Path, certificates: Certificates) -> None:
    """Each changes all sections that can, and the certificate, and opens and closes a listener: all messages come once
    and in order.
    """
    (tmp_path / "new").mkdir()
    renewed = make_certificates(tmp_path / "new")
    broker = start([Listener(), Listener("tls", certificates)], sections=changed(0))
    wait_for_event(broker, "listening")
    file = tmp_path / "sluice.yaml"
    sections = yaml.safe_load(file.read_text())
    with (
        connected(broker.address(), 5, client_id="idle") as idle,
        WireClient(broker.address("tls"), 5, tls=certificates.client_context(with_certificate=False)) as secure,
        Load(broker) as load,
    ):
        secure.connect("secure")
        before = (0, 0)
        for number in range(1, WARM_UP + RELOADS + 1):
            server = (renewed if number % 2 else certificates).server
            more = [{"name": f"more{number}", "bind": "127.0.0.1:0"}]
            sections["listeners"][1]["tls"] |= {"certfile": str(server.certfile), "keyfile": str(server.keyfile)}
            file.write_text(yaml.safe_dump(sections | changed(number) | {"listeners": sections["listeners"] + more}))
            sent = load.producer.acknowledged
            answer = request(tmp_path / "a.sock", "/api/v1/reload", "POST")
            assert (answer.status, answer.json["restart"]) == (200, {})
            assert [each["name"] for each in answer.json["opened"]] == [f"more{number}"]
            assert [each["name"] for each in answer.json["closed"]] == ([f"more{number - 1}"] if number > 1 else [])
            sections_changed = {re.split(r"[.\[]", key)[0] for key in answer.json["changed"]}
            assert sections_changed == {*changed(0), "listeners"}
            wait_until(partial(load.is_past, sent), "the load goes on")
            if number == WARM_UP:
                before = (broker.rss(), broker.open_files())
        grown = broker.rss() - before[0]
        # The file of a reload's own request may still have been open when they were counted.
        wait_until(lambda: broker.open_files() <= before[1], "no more files are open than before")
        load.stop()
        assert load.failed is None
        assert load.consumer.numbers == list(range(load.producer.sent))
        for client in (idle, secure):
            client.send(Pingreq())
            client.expect(Pingresp)
    assert grown < MOST_GROWTH
    broker.assert_healthy()
