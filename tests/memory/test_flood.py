"""Strangers who connect as fast as they can, with CONNECTs as long as MQTT allows, and a client beside them."""

from pathlib import Path
from threading import Thread

import pytest

from protocol import reason_codes
from tests.memory.flood import LONGEST, MEBIBYTE, configuration, flood
from tests.support.broker.events import events
from tests.support.brokers import start_sluice
from tests.support.wire import connected

pytestmark = pytest.mark.once

CONNECTS = 2_000
"""130 MB of client ids."""
CLIENTS = 32


@pytest.mark.parametrize("attack", ["refused", "scram"])
def test_strangers_take_little_memory(tmp_path: Path, attack: str) -> None:
    """The broker does not keep what strangers have sent, so that they do not have it slow others by the watermark."""
    with start_sluice(tmp_path, sections=configuration(attack, tmp_path, LONGEST)) as calm:
        watermark = calm.rss() + 60 * MEBIBYTE
    sections = configuration(attack, tmp_path, LONGEST) | {"memory_watermark": watermark, "allow_anonymous": True}
    with start_sluice(tmp_path, sections=sections) as broker, connected(broker.address(), 5) as honest:
        before, made = broker.rss(), [0]
        arguments = (broker.address(), attack, LONGEST, CLIENTS, lambda count: count > CONNECTS)
        attacker = Thread(target=lambda: made.append(flood(*arguments)))
        attacker.start()
        grown = []
        while attacker.is_alive():
            assert honest.publish("honest", b"21.5", 1) < reason_codes.UNSPECIFIED_ERROR
            grown.append(broker.rss() - before)
        attacker.join()
        assert made[-1] > CONNECTS
        assert max(grown) < 60 * MEBIBYTE
        assert events(broker, "memory_high") == []
