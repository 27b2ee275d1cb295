"""FC-8: what is sent again, and when."""

from typing import TYPE_CHECKING

from session.outbox import PUBREL_HEAD
from session.window import WAIT_PUBCOMP, Inflight

if TYPE_CHECKING:
    from session.outbound import Outbound


def retry(outbound: "Outbound", now: int) -> int:
    """While connected, 3.1.1 only: resend what is `retry_interval` old. Returns when to call again, 0 = no need."""
    interval = outbound.limits.retry_interval
    entries = outbound.window.entries
    if outbound.outbox.version != 4 or not interval or not outbound.connected or not entries:
        return 0
    if outbound.congested:
        return now + interval  # what was sent last is still on its way: more copies would only pile up behind it
    held = outbound.held
    oldest = now
    for packet_id, inflight in entries.items():
        if held is not None and packet_id in held:
            continue  # not sent on this connection yet
        if inflight.last_sent_at + interval <= now:
            _resend(outbound, packet_id, inflight, now)
        oldest = min(oldest, inflight.last_sent_at)
    return oldest + interval


def resend_held(outbound: "Outbound", now: int) -> None:
    """Resend the kept window, first sent first, no more of it than the new window holds (FC-1)."""
    held = outbound.held
    if held is None:
        return
    window = outbound.window
    while held and len(window.entries) - len(held) < window.limit:
        packet_id = held.pop()
        inflight = window.entries[packet_id]
        if inflight.phase != WAIT_PUBCOMP and outbound.too_large(inflight.publish):
            outbound.give_back_place(packet_id, inflight, now)  # [MQTT-3.1.2-25]: as if it had been completed
        else:
            _resend(outbound, packet_id, inflight, now)
    if not held:
        outbound.held = None


def _resend(outbound: "Outbound", packet_id: int, inflight: Inflight, now: int) -> None:
    inflight.last_sent_at = now
    if inflight.phase == WAIT_PUBCOMP:
        outbound.outbox.add_acknowledgement(PUBREL_HEAD, packet_id)
        outbound.counters.resent_pubrel += 1
    else:
        outbound.outbox.add_resent_publish(inflight.publish, packet_id, now)
        outbound.counters.resent_publish += 1
