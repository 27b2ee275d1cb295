"""The sessions of one group and their shared queue: for FC-13."""

from protocol.subscribe import Subscription
from session.limits import Limits
from session.shared_queue import SharedQueue
from tests.support.session.host import NotingHost
from tests.support.session.messages import message, texts
from tests.support.session.peer import Peer

NAME = "$share/g/t"


class Group:
    """Some peers that share, and what each of them gets."""

    def __init__(self, count: int, limits: Limits | None = None, qos: int = 2) -> None:
        self.limits = limits if limits is not None else Limits(max_inflight=2)
        self.host = NotingHost()
        self.queue = SharedQueue(NAME, self.limits, self.host)
        self.peers = [Peer(self.limits) for _ in range(count)]
        for peer in self.peers:
            self.join(peer, qos)

    def join(self, peer: Peer, qos: int = 2) -> list[str]:
        """A peer subscribes."""
        self.queue.add(peer.outbound, Subscription(NAME, qos))
        return texts(peer.end_chunk())

    def end(self, peer: Peer) -> None:
        """A member's session ends."""
        self.queue.remove(peer.outbound)
        peer.session.end(peer.now)

    def publish(self, *labels: object, qos: int = 1, size: int = 0, topic: str = "t") -> None:
        """Messages arrive for the group."""
        now = self.peers[0].now
        for label in labels:
            self.queue.deliver(message(label, qos, topic, size=size, now=now), None, now)

    def run(self) -> list[list[str]]:
        """All session tasks run; returns what each member has got."""
        return [texts(peer.run()) for peer in self.peers]

    def deliver(self, *labels: object, qos: int = 1, size: int = 0) -> list[list[str]]:
        """Messages arrive, and all session tasks run."""
        self.publish(*labels, qos=qos, size=size)
        return self.run()

    def waiting(self) -> list[str]:
        """What waits with the group, head first."""
        return texts(self.queue.mqueue) if self.queue.mqueue is not None else []

    def drops(self) -> dict[str, int]:
        """How many deliveries the group has dropped, by reason and QoS."""
        return self.queue.counters.drops or {}
