"""The counts of one session in one metrics interval that most sessions do not have: they are made with the first one.

The attributes are named as the columns of the exported files.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from session import qos0_gate


@mypyc_attr(acyclic=True)
@final
class UncommonCounts:
    """What was held back, dropped, refused or slow, and the gauges at the end of the interval."""

    dropped_qos0: int = 0
    dropped_qos1: int = 0
    dropped_qos2: int = 0
    superseded_qos0: int = 0
    superseded_qos1: int = 0
    superseded_qos2: int = 0
    gated_congested: int = 0
    gated_window_full: int = 0
    gated_mailbox_busy: int = 0
    gated_backlog: int = 0
    gated_rate: int = 0
    resent_publish: int = 0
    resent_pubrel: int = 0
    window_full_us: int = 0
    congested_us: int = 0
    reading_paused_us: int = 0
    rate_limited_us: int = 0
    window_bytes_full_us: int = 0
    slow_consumer: int = 0
    stalled_window: int = 0
    shared_returned: int = 0
    awaiting_rel_refused: int = 0
    awaiting_rel_expired: int = 0
    receive_maximum_exceeded: int = 0
    publish_refused: int = 0
    publish_parked: int = 0
    publish_paged: int = 0
    publish_parked_us: int = 0
    publish_discarded: int = 0
    publish_throttled_us: int = 0
    publish_paced_us: int = 0
    paced_for_us: int = 0
    connected_us: int = 0

    waiting_start_qos0: int = 0
    waiting_start_qos1: int = 0
    waiting_start_qos2: int = 0

    # Gauges at the end of the interval.
    window_len: int = 0
    window_max: int = 0
    window_limit: int = 0
    max_inflight: int = 0
    window_bytes: int = 0
    mqueue_len: int = 0
    mqueue_bytes: int = 0
    awaiting_rel_len: int = 0
    waiting_qos0: int = 0
    waiting_qos1: int = 0
    waiting_qos2: int = 0

    def count_gated(self, closed: int) -> None:
        """Count one QoS 0 delivery that the gate queued, under the first reason that held (FC-3)."""
        if closed == qos0_gate.CONGESTED:
            self.gated_congested += 1
        elif closed == qos0_gate.WINDOW_FULL:
            self.gated_window_full += 1
        elif closed == qos0_gate.MAILBOX_BUSY:
            self.gated_mailbox_busy += 1
        elif closed == qos0_gate.BACKLOG:
            self.gated_backlog += 1
        else:
            self.gated_rate += 1

    def dropped(self) -> int:
        """Deliveries of any QoS that were dropped, for any reason."""
        return self.dropped_qos0 + self.dropped_qos1 + self.dropped_qos2

    def superseded(self) -> int:
        """Deliveries of any QoS whose places newer ones have taken (FC-37)."""
        return self.superseded_qos0 + self.superseded_qos1 + self.superseded_qos2

    def quiet(self) -> bool:
        """Whether nothing has happened since the interval began that needs a row."""
        return not (
            self.dropped()
            or self.resent_publish
            or self.resent_pubrel
            or self.awaiting_rel_refused
            or self.awaiting_rel_expired
            or self.receive_maximum_exceeded
            or self.publish_refused
            or self.publish_parked
            or self.publish_paged
            or self.publish_discarded
            or self.publish_parked_us
            or self.slow_consumer
            or self.stalled_window
        )


NOTHING: Final = UncommonCounts()
"""Those of all sessions that have none: nothing is ever added to them."""
