"""What a session waits for, and which key of the configuration holds it back, in words."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Final

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
    """The reason in the words of the report on exported metrics."""
    if reason not in _CASES:
        return "nothing waits" if reason == NOTHING else "the journal, or its disk, is full"
    name, meaning = (_words()[kind].get(_CASES[reason], "") for kind in ("names", "meanings"))
    return f"{name}, {meaning}" if meaning else name


def advice(reason: str, client: Client) -> str:
    """Say why the session waits, and what changes it."""
    if reason == NOTHING and not client.session.totals(0).offered:
        return _NOT_OFFERED
    backlog = client.session.outbound.backlog
    held = _HELD if backlog is not None and backlog.is_waited_for() else ""
    figures = _figures(client)
    case = _CASES.get(reason, "")
    if reason == WINDOW and 0 < figures["window"] < figures["max_inflight"]:
        case = "window_full_own"
    remedy = _words()["remedies"].get(case, "")
    return " ".join(text.format(**figures) for text in (_ADVICE[reason], remedy) if text) + held


def _figures(client: Client) -> dict[str, Any]:
    session = client.session
    gauges = session.gauges()
    limits: Limits = session.limits
    return {
        "length": gauges.mqueue_len,
        "window": gauges.window_limit,
        "more": f"more than {gauges.window_limit}",
        "max_inflight": limits.window(0),
        "rate": limits.consumer_max_rate,
        "more_rate": f"more than {limits.consumer_max_rate}",
    }


_CASES: Final = {
    CLIENT: "offline",
    SEND_PATH: "congested",
    WINDOW: "window_full",
    BYTE_WINDOW: "window_bytes_full",
    RATE: "rate_limited",
    TURN: "backlog",
}
"""The report's names of the reasons."""


@cache
def _words() -> dict[str, dict[str, str]]:
    """The words that the report takes from the same file: no import joins the two."""
    return tomllib.loads(files("spark_jobs").joinpath("advice.toml").read_text(encoding="utf-8"))


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
    SEND_PATH: "The send path is congested: {length} deliveries wait, QoS 0 until the send path has drained (FC-3).",
    WINDOW: "The window is full: {window} deliveries are sent and not acknowledged, and {length} wait behind them.",
    BYTE_WINDOW: "The byte window is full: {length} deliveries wait behind what is sent and not acknowledged.",
    RATE: "The rate is used up, and {length} deliveries wait.",
    DISK: (
        "The journal, or its disk, has no room (FC-29): what the session's groups and new subscriptions have for it "
        "waits there, and if the log has journal_stuck, its acknowledgements wait too. Free space, or raise "
        "persistence.max_bytes."
    ),
    TURN: "{length} deliveries wait for the session's next pass: the broker is busy with other sessions.",
}
