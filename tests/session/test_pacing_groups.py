"""FC-16, FC-13: a full shared queue paces its publishers and takes deliveries up to twice its limits."""

from protocol.subscribe import Subscription
from session.limits import Limits
from session.shared_queue import SharedQueue
from tests.support.session.host import NotingHost
from tests.support.session.pacing import Scene
from tests.support.session.sharing import NAME


def group(*, members: int = 2, publishers: int = 1, limits: Limits | None = None) -> Scene:
    """Sessions that share."""
    scene = Scene(limits or Limits(max_inflight=2, max_mqueue_len=10), receivers=members, publishers=publishers)
    scene.group = SharedQueue(NAME, scene.limits, NotingHost())
    for receiver in scene.receivers:
        scene.group.add(receiver.outbound, Subscription(NAME, 2))
        receiver.end_chunk()
    return scene


def waiting(scene: Scene) -> int:
    """How many wait with the group."""
    assert scene.group is not None
    assert scene.group.mqueue is not None
    return scene.group.mqueue.length


def group_dropped(scene: Scene) -> int:
    """How many an overflow has dropped."""
    assert scene.group is not None
    counters = scene.group.counters
    for qos in range(3):
        offered, sent, lost = (counters.column(f"{name}_qos{qos}") for name in ("offered", "sent", "dropped"))
        mqueue = scene.group.mqueue
        assert offered == sent + lost + sum(publish.qos == qos for publish in mqueue or ())
    return counters.dropped_queue_full


def test_group_holds_back() -> None:
    """FC-16, FC-13: a full shared queue that drains paces publishers until it is down to half of its limit."""
    scene = group()
    scene.fill()
    assert scene.bring(5) == 1
    assert scene.publisher.host.paused
    for _ in range(5):
        scene.acknowledge()
        assert scene.publisher.host.paused
    scene.acknowledge(1, scene.receivers[1])
    assert waiting(scene) == 5
    assert not scene.publisher.host.paused
    assert group_dropped(scene) == 0


def test_group_stalls() -> None:
    """FC-16, FC-13: a shared queue that drains nothing for 300 ms releases its publishers and drops at once."""
    scene = group()
    scene.overfill()
    scene.advance(0.299)
    assert scene.publisher.host.paused
    scene.advance(0.002)
    assert not scene.publisher.host.paused
    assert scene.bring(5) == 5
    assert waiting(scene) == 10
    assert group_dropped(scene) == 6


def test_group_takes_twice_its_limit() -> None:
    """FC-16, FC-13: a shared queue that paces takes deliveries up to twice its limit and drops the others."""
    scene = group(publishers=12)
    scene.fill()
    for publisher in scene.publishers:
        scene.bring(5, publisher)
    assert all(publisher.host.paused for publisher in scene.publishers)
    assert waiting(scene) == 20
    assert group_dropped(scene) == 2


def test_group_takes_twice_its_bytes() -> None:
    """FC-16, FC-13: a shared queue that paces takes up to twice its limit in bytes and drops the others."""
    scene = group(publishers=12, limits=Limits(max_inflight=1, max_mqueue_len=0, max_mqueue_bytes=100))
    scene.bring(2)
    assert scene.bring(5, size=20) == 5
    for publisher in scene.publishers:
        scene.bring(5, publisher, size=20)
    assert waiting(scene) == 10
    assert group_dropped(scene) == 7


def test_will_to_a_group_that_holds_back() -> None:
    """FC-16, FC-13: a will does not make a shared queue drop what it took past its limit."""
    scene = group(publishers=4)
    scene.fill()
    for publisher in scene.publishers:
        scene.bring(5, publisher)
    scene.broker_brings(3)
    assert waiting(scene) == 17
    assert group_dropped(scene) == 0


def test_group_without_anybody_online() -> None:
    """FC-16, FC-13: a group whose members are all offline paces nobody."""
    scene = group(members=1)
    scene.receiver.disconnect()
    assert scene.bring(15) == 15
    assert group_dropped(scene) == 5


def test_group_after_a_long_rest() -> None:
    """FC-16, FC-13: a shared queue that was empty for long has not stalled."""
    scene = group()
    for _ in range(2):
        scene.overfill()
        assert scene.publisher.host.paused
        for receiver in scene.receivers:
            scene.drain(receiver)
        assert not scene.publisher.host.paused
        scene.advance(600)
    assert group_dropped(scene) == 0
