"""FC-36: with `max_mqueue_age` what waits for a group, or for a client that is away, is dropped when it is too old."""

from pathlib import Path

from protocol import properties as props
from tests.support.broker.admin import request
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

SECTIONS = {"session": {"max_mqueue_age": "1s"}, "admin": {"socket": "a.sock"}}


def test_away(tmp_path: Path) -> None:
    """FC-36, FC-13: nobody has to be connected for that, and what is newer is delivered."""
    with start_sluice(tmp_path, TCP_ONLY, SECTIONS) as broker, connected(broker.address()) as publisher:
        for name, topic_filter in (("own", "t"), ("member", "$share/g/t")):
            with WireClient(broker.address(), 5) as client:
                client.connect(name, properties={props.SESSION_EXPIRY_INTERVAL: 100})
                client.subscribe(topic_filter, qos=1)
                client.disconnect()
        publisher.publish("t", b"old", 1)
        queued = "sluice_mqueue_deliveries{", "sluice_groups_mqueue_deliveries "

        def waiting() -> list[float]:
            """What the sessions and the groups have waiting."""
            lines = request(tmp_path / "a.sock", "/metrics").text.splitlines()
            return [sum(float(line.split()[-1]) for line in lines if line.startswith(name)) for name in queued]

        wait_until(lambda: waiting() == [0, 0], "both are too old")
        publisher.publish("t", b"new", 1)

        metrics = request(tmp_path / "a.sock", "/metrics").text
        assert 'reason="aged"} 1' in metrics
        for name in ("own", "member"):
            with WireClient(broker.address(), 5) as client:
                client.connect(name, clean_start=False)
                assert client.receive_message().payload == b"new"
