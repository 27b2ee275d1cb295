"""What a session waits for, and which key of the configuration holds it back, in words."""

from typing import Final

from broker.clients import Client
from session import qos0_gate
from session.limits import Limits

NOTHING: Final = "nothing"
CLIENT: Final = "client"
SEND_PATH: Final = "send path"
WINDOW: Final = "window"
BYTE_WINDOW: Final = "byte window"
RATE: Final = "rate"
TURN: Final = "turn"
DISK: Final = "disk"

REASONS: Final = (NOTHING, CLIENT, SEND_PATH, WINDOW, BYTE_WINDOW, RATE, TURN, DISK)
"""All that a session can wait for."""


def waits_for(client: Client) -> str:
    """What has to happen before the session's next delivery is sent; one of REASONS."""
    session = client.session
    outbound = session.outbound
    sender = outbound.sender
    mqueue = outbound.mqueue
    waiting = mqueue.length if mqueue is not None else 0
    if not session.connected:
        return CLIENT if waiting or sender.window.entries else NOTHING
    if _waits_for_disk(client):
        return DISK
    if not waiting:
        return NOTHING
    if sender.congested:
        return SEND_PATH
    if sender.window.full:
        return WINDOW
    held_by = qos0_gate.OPEN if sender.throttle is None else sender.throttle.holding()
    if held_by == qos0_gate.RATE:
        return RATE
    return BYTE_WINDOW if held_by == qos0_gate.WINDOW_FULL else TURN


def backlog_us(client: Client, now: int) -> int:
    """For how long something has waited in the mqueue, at most since the client has connected; 0 = it is not known."""
    backlog = client.session.outbound.backlog
    if backlog is None or not backlog.queued() or not backlog.since:
        return 0
    return now - backlog.since


def _waits_for_disk(client: Client) -> bool:
    """FC-29: whether the disk has no room for acknowledgements, or for what groups and subscriptions have for it."""
    if client.kept is None:
        return False
    commits = client.kept.journal.commits
    return commits.stuck or (client.session.outbound.may_get_more() and not commits.may_move())


def because(reason: str) -> str:
    """The reason in the words of the report on exported metrics, which has its own code: no import joins the two."""
    return _BECAUSE[reason]


def advice(reason: str, client: Client) -> str:
    """Say why the session waits, and what changes it."""
    if reason == NOTHING and not client.session.totals(0).offered:
        return _NOT_OFFERED
    backlog = client.session.outbound.backlog
    held = _HELD if backlog is not None and backlog.is_waited_for() else ""
    return _ADVICE[reason].format(**_figures(client)) + held


def _figures(client: Client) -> dict[str, object]:
    session = client.session
    gauges = session.gauges()
    limits: Limits = session.limits
    own = 0 < gauges.window_limit < (limits.max_inflight or 65_536)
    return {
        "length": gauges.mqueue_len,
        "window": gauges.window_limit,
        "limit": "the client's own Receive Maximum" if own else "session.max_inflight",
        "rate": limits.consumer_max_rate,
        "size": limits.consumer_window_size,
    }


_BECAUSE: Final = {
    NOTHING: "nothing waits",
    CLIENT: "not connected",
    SEND_PATH: "send path congested, a sign of a slow client or network",
    WINDOW: "window full, a sign of late acknowledgement",
    BYTE_WINDOW: "window full (bytes), a sign of late acknowledgement",
    RATE: "rate used up, the limit is below the demand",
    TURN: "backlog in the mqueue",
    DISK: "the journal, or its disk, is full",
}
"""`tests/broker/admin/test_waiting.py` compares them with those of spark_jobs/page/trouble.py."""

_NOT_OFFERED: Final = "Nothing waits: no message for it has come since its session began. It may only publish."

_HELD: Final = (
    " Its mqueue is full, and PUBLISHes wait until it has room, for session.overflow_timeout at most "
    "(session.mqueue_overflow: block)."
)

_ADVICE: Final = {
    NOTHING: "Nothing waits: what is offered is sent at once.",
    CLIENT: (
        "The client is away, and {length} deliveries wait for it in its mqueue (session.max_mqueue_len bounds them, "
        "mqtt.max_session_expiry_interval how long)."
    ),
    SEND_PATH: (
        "The send path is congested: the client, or the network to it, reads more slowly than is sent. {length} "
        "deliveries wait, QoS 0 until the send path has drained (FC-3). A larger session.max_inflight does not help; "
        "a faster network, fewer or smaller messages do."
    ),
    WINDOW: (
        "The window is full: {window} deliveries are sent and not acknowledged, and {length} wait behind them. "
        "The limit is {limit}: a higher one helps if the client acknowledges late; if it handles messages slowly, "
        "only fewer messages or a shared subscription help."
    ),
    BYTE_WINDOW: (
        "The byte window is full: session.consumer_window_size ({size} bytes) limits what may be unacknowledged, and "
        "{length} deliveries wait. A larger one lets more be sent."
    ),
    RATE: (
        "The rate is used up: session.consumer_max_rate allows {rate} deliveries a second, and {length} wait. "
        "A higher one lets them be sent sooner."
    ),
    DISK: (
        "The journal, or its disk, has no room (FC-29): what the session's groups and new subscriptions have for it "
        "waits there, and if the log has journal_stuck, its acknowledgements wait too. Free space, or raise "
        "persistence.max_bytes."
    ),
    TURN: "{length} deliveries wait for the session's next pass: the broker is busy with other sessions.",
}
