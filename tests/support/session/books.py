"""Checks a session's counters against what its client and publishers have seen."""

from session.counters import Counters
from session.outbound import Outbound


def by_qos(counters: Counters, name: str) -> tuple[int, int, int]:
    """One of the counts that there is of each QoS."""
    return (
        counters.column(f"{name}_qos0"),
        counters.column(f"{name}_qos1"),
        counters.column(f"{name}_qos2"),
    )


def assert_balanced(counters: Counters) -> None:
    """waiting_start + offered = sent + dropped + waiting, QoS by QoS, and drops add up by reason."""
    for qos in range(3):
        start, offered, sent, dropped, waiting = (
            by_qos(counters, name)[qos] for name in ("waiting_start", "offered", "sent", "dropped", "waiting")
        )
        assert start + offered == sent + dropped + waiting, f"QoS {qos}"
        reasons = (counters.drops or {}).items()
        assert dropped == sum(count for column, count in reasons if column.endswith(f"_qos{qos}"))
        assert min(start, offered, sent, dropped, waiting) >= 0


class Books:
    """What all intervals of a session add up to, and what it should."""

    def __init__(self) -> None:
        self.routed = [0, 0, 0]
        """Deliveries handed over, by QoS: counted by the test."""
        self.sent = [0, 0, 0]
        """First transmissions that the client has seen, by QoS: counted by the test."""
        self.completed = [0, 0, 0]
        self.resent_publish = 0
        self.resent_pubrel = 0
        self._closed: list[Counters] = []

    def close_interval(self, counters: Counters) -> None:
        """Check one interval by itself and against the one before it."""
        assert_balanced(counters)
        before = by_qos(self._closed[-1], "waiting") if self._closed else (0, 0, 0)
        assert by_qos(counters, "waiting_start") == before
        self._closed.append(counters)
        assert [self._total("offered", qos) for qos in range(3)] == self.routed

    def check(self, outbound: Outbound) -> None:
        """Check the sums, the interval that is running included."""
        rows = [*self._closed, outbound.sender.counters]
        assert [self._total("sent", qos, outbound) for qos in range(3)] == self.sent
        assert sum(row.acknowledged_qos1 for row in rows) == self.completed[1]
        assert sum(row.acknowledged_qos2 for row in rows) == self.completed[2]
        assert sum(row.uncommon.resent_publish for row in rows) == self.resent_publish
        assert sum(row.uncommon.resent_pubrel for row in rows) == self.resent_pubrel
        mqueue = outbound.mqueue
        queued = list(mqueue) if mqueue is not None else []
        mailbox = outbound.mailbox.length()
        gone = sum(self.sent) + sum(self._total("dropped", qos, outbound) for qos in range(3))
        assert sum(self.routed) == gone + len(queued) + mailbox
        if mailbox == 0:
            for qos in range(3):
                waiting = sum(publish.qos == qos for publish in queued)
                assert self.routed[qos] == self.sent[qos] + self._total("dropped", qos, outbound) + waiting

    def _total(self, name: str, qos: int, running: Outbound | None = None) -> int:
        rows = [*self._closed, running.sender.counters] if running is not None else self._closed
        return sum(by_qos(row, name)[qos] for row in rows)
