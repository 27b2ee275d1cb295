"""The relay that `run.py --prototype` compares with."""

from pathlib import Path

from protocol.publish import Publish
from tests.bench import relay
from tests.bench.candidates import find_prototype
from tests.support.wire import WireClient


def test_it_forwards(tmp_path: Path) -> None:
    """A client gets what another one publishes to the topic that it has subscribed to."""
    candidate = find_prototype(Path(relay.__file__), False, tmp_path)
    with candidate.start(tmp_path, True) as broker:
        subscriber, publisher = WireClient(broker.address()), WireClient(broker.address())
        with subscriber, publisher:
            subscriber.connect("subscriber")
            subscriber.subscribe("t")
            publisher.connect("publisher")
            publisher.send(Publish(b"t", b"one"), Publish(b"t", b"two"))
            assert [subscriber.expect(Publish).payload for _ in range(2)] == [b"one", b"two"]
