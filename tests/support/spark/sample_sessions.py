"""Tables of the sample result that name sessions: worst, starved, stalled, publishers."""

import random
from typing import Any

from tests.support.spark.sample_story import HOSTILE, HOUR, START, TROUBLE, Rows, bounded, strength


def worst(dice: random.Random, trouble: float) -> dict[str, Rows]:
    """The tables that name sessions."""
    sessions = _sessions(dice)
    starved_runs = 14 if trouble == 1 else 0
    worst: Rows = []
    per_hour: Rows = []
    for i, session in enumerate(sessions[:20]):
        ratio = min(0.98, 0.12 + 0.03 * i + (1 - trouble) * 0.8)
        offered = dice.randrange(9_000, 90_000)
        why = ("window_full", "window_full", "window_full", "congested", "rate_limited")[i % 5]
        if i % 10 == 9:
            why = "queue_full_paced"
        worst.append(
            {
                **session,
                "offered": offered,
                "due": offered,
                "sent": int(offered * ratio),
                "dropped": int(offered * (1 - ratio)),
                "delivery_ratio": ratio,
                "goodput": offered * ratio / 86_400,
                "gated": int(offered * 0.4),
                **bounded("wait_p99", 45_000_000 * (1 - ratio) + 2),
                "window_full_share": 0.31 if why == "window_full" else 0.0,
                "window_bytes_full_share": 0.0,
                "rate_limited_share": 0.4 if why == "rate_limited" else 0.0,
                "congested_share": 0.22 if why == "congested" else 0.01,
                "paced_for_us": 60_000_000 * (20 - i) if why == "congested" else 0,
                "mqueue_max": 1000,
                "mailbox_max": dice.randrange(90),
                "starved_rows": 40 if i < starved_runs else 0,
                "window_limit": 32,
                "max_inflight": 32,
                "ack_p1": 4_000.0,
                "ack_p50": 5_000.0,
                "why": why,
            }
        )
        if i < 12:
            per_hour += _hours_of(session, i + 1, offered, ratio, starved=i < starved_runs)
    return {
        "worst_sessions": worst,
        "worst_hours": per_hour,
        "starved_worst": _starved(sessions[:starved_runs]),
        "starvation": _starvation(starved_runs),
        **_rankings(dice, sessions, trouble),
        **_causes(sessions),
        **_groups(sessions),
    }


def _starved(sessions: Rows) -> Rows:
    found: Rows = []
    for i, session in enumerate(sessions):
        begun = TROUBLE + 600_000_000 + i * 120_000_000
        length = 42 - 2 * i
        found.append(
            {
                **session,
                "runs": 1 + i % 3,
                "longest_intervals": length,
                "longest_us": length * 60_000_000,
                "longest_start_us": begun,
                "starved_us": (length + 3) * 60_000_000,
                "first_us": begun,
                "last_us": begun + (length + 20) * 60_000_000,
                "offered": 400 + i,
                "waiting": 90,
                "offered_in_range": 30_000,
                "sent_in_range": 4_000,
                "window_full_share": 0.3,
                "window_bytes_full_share": 0.0,
                "rate_limited_share": 0.0,
                "congested_share": 0.02,
                "window_limit": 32,
                "max_inflight": 32,
                "why": "window_full" if i % 7 else "congested",
            }
        )
    return found


def _sessions(dice: random.Random) -> Rows:
    names = [f"meter/{dice.randrange(16**6):06x}-{dice.randrange(900)}" for _ in range(44)]
    names[2:8] = HOSTILE
    return [
        {
            "broker": f"broker-{i % 4}.example.net",
            "client_id": name,
            "begun": i % 2,
            "listener": "tls-8883" if i % 5 else "ws-8084",
            "client_prefix": "meter" if name.startswith("meter") else "",
        }
        for i, name in enumerate(names)
    ]


def _hours_of(session: dict[str, Any], rank: int, offered: int, ratio: float, *, starved: bool) -> Rows:
    found: Rows = []
    for hour in range(START, START + 24 * HOUR, HOUR):
        bad = strength(hour + HOUR // 2, 1.0)
        share = max(0.0, 1 - 1.6 * bad * (1 - ratio))
        found.append(
            {
                "broker": session["broker"],
                "client_id": session["client_id"],
                "rank": rank,
                "hour_us": hour,
                "offered": offered // 24,
                "sent": int(offered // 24 * share),
                "dropped": int(offered // 24 * (1 - share)),
                "delivery_ratio": share,
                **bounded("ack_p99", 5000 + 2_000_000 * bad),
                **bounded("wait_p99", 500 + 9_000_000 * bad),
                "starved_rows": int(30 * bad) if starved else 0,
                "window_full_share": 0.5 * bad,
            }
        )
    return found


def _starvation(sessions: int) -> Rows:
    found: Rows = []
    lengths = (("all", 3, None), ("1", 1, 1), ("2", 2, 2), ("3-5", 3, 5), ("6-10", 6, 10), ("11-30", 11, 30))
    shares = (1.0, 90.0, 8.0, 0.1, 0.2, 0.4, 0.3)
    for (length, least, most), share in zip((*lengths, ("31+", 31, None)), shares, strict=True):
        number = int(sessions * share)
        found.append(
            {
                "length": length,
                "least_intervals": least,
                "most_intervals": most,
                "runs": number * 2,
                "clients": number,
                "longest_intervals": 42 if sessions else 0,
                "seconds": number * 1260.0,
                "offered": number * 400,
                "episodes": min(1, number),
                "episode_seconds": 21_000.0,
                "episodes_share": 21_000 / 86_400 if number else 0.0,
                "first_us": TROUBLE + HOUR // 6,
                "last_us": TROUBLE + 6 * HOUR,
            }
        )
    return found


def _publishers(dice: random.Random, sessions: Rows) -> Rows:
    return [
        {
            **session,
            "received": 9_000_000 // (i + 1),
            "received_qos0": 8_000_000 // (i + 1),
            "received_qos1": 700_000 // (i + 1),
            "received_qos2": 300_000 // (i + 1),
            "received_bytes": 4_500_000_000 // (i + 1),
            "share_of_received": 0.078 / (i + 1),
            "share_of_bytes": 0.09 / (i + 1),
            "received_per_second": 104.0 / (i + 1),
            "publish_refused": dice.randrange(3),
            "publish_parked": dice.randrange(900),
            "publish_paged": 0,
            "publish_discarded": 0,
            "publish_parked_us": 5_000_000,
            "publish_throttled_us": 0,
            "publish_paced_us": 9_000_000 // (i + 1),
            "reading_paused_us": 2_000_000,
        }
        for i, session in enumerate(sessions)
    ]


def _paced_for(sessions: Rows) -> Rows:
    return [
        {
            **session,
            "paced_for_us": 4_000_000_000 >> i,
            "paced_for_share": 0.046 / 2**i,
            "offered": 40_000,
            "sent": 30_000,
            "dropped": 10_000,
            "delivery_ratio": 0.75,
            "window_full_share": 0.3,
            "congested_share": 0.02,
            "mqueue_max": 1000,
            "why": "congested" if i % 2 else "queue_full_paced",
        }
        for i, session in enumerate(sessions)
    ]


def _causes(sessions: Rows) -> dict[str, Rows]:
    return {
        "away_clients": [
            {**each, "offered": 900, "missed": 90 - i, "missed_dropped": 40, "connected_share": 0.3}
            for i, each in enumerate(sessions[:20])
        ],
        "dropped_clients": [
            {**each, "due": 40_000, "lost": 9_000 >> i, "share_of_lost": 0.02 / (i + 1), "why": "queue_full"}
            for i, each in enumerate(sessions[:20])
        ],
        "reconnecting_clients": [
            {
                "broker": sessions[0]["broker"],
                "client_id": sessions[0]["client_id"],
                "begun": 151,
                "first_us": TROUBLE,
                "last_us": TROUBLE + 157_000_000,
                "connected_share": 0.99,
            }
        ],
    }


def _groups(sessions: Rows) -> dict[str, Rows]:
    """Two groups with two members each, none of them slow."""
    groups, members = [], []
    for name, own in (("$share/bills/meter/#", sessions[:2]), ("$share/alarms/+/alarm", sessions[2:4])):
        group = {"broker": own[0]["broker"], "share_group": name}
        figures = {"members": 2, "offered": 90_000, "sent": 90_000, "dropped": 0, "lost": 0, "mqueue_max": 40}
        slowest = {"slowest": own[0]["client_id"], "slowest_share": 0.3, "usual_share": 0.2, "why": ""}
        groups.append({**group, **figures, "paced_for_us": 0, **slowest})
        members += [
            {**group, "client_id": each["client_id"], "sent": 45_000, "share_of_sent": 0.5}
            | {"blocked_share": 0.3 - i / 10, "why": "window_full"}
            for i, each in enumerate(own)
        ]
    return {"groups": groups, "group_members": members}


def _rankings(dice: random.Random, sessions: Rows, trouble: float) -> dict[str, Rows]:
    full = [
        {
            **session,
            "duration_us": 24 * HOUR,
            "window_full_share": 0.4 - 0.015 * i,
            "window_bytes_full_share": 0.0,
            "rate_limited_share": 0.0,
            "congested_share": 0.02,
            "window_limit": 32,
            "mqueue_max": 1000,
        }
        for i, session in enumerate(sessions[:20])
    ]
    stalled = [
        {**session, "stalled_window": 9 - i, "slow_consumer": i, "window_full_share": 0.3, "mqueue_max": 1000}
        for i, session in enumerate(sessions[:8])
    ]
    inverted = [{**sessions[40], "inverted_qos0": 12, "blocked_rows": 80, "sent_qos0": 9000}] if trouble == 1 else []
    return {
        "head_of_line_sessions": full,
        "stalled_sessions": stalled,
        "publishers": _publishers(dice, sessions[20:40]),
        "paced_for_sessions": _paced_for(sessions[: 20 if trouble == 1 else 3]),
        "inverted_sessions": inverted,
        "stalled": [
            {"kind": "stalled_window", "reports": 44, "clients": 8},
            {"kind": "slow_consumer", "reports": 28, "clients": 7},
        ],
        "inversion": [
            {
                "inverted_qos0": 12 if inverted else 0,
                "share_of_sent_qos0": 4e-8 if inverted else 0.0,
                "blocked_rows": 8_000,
                "clients": len(inverted),
            }
        ],
        "queues": [
            {
                "mailbox_max": 64,
                "mqueue_max": 1000,
                "mqueue_bytes_max": 512_000,
                "window_max": 32,
                "mailbox_samples": 160_000_000,
                "mailbox_busy_samples": 320_000,
                "mailbox_busy_share": 0.002,
                "window_full_seconds": 10_540_000.0,
                "window_bytes_full_seconds": 345_000.0,
                "rate_limited_seconds": 0.0,
                "congested_seconds": 5_356_000.0,
                "paced_for_seconds": 7_950.0 * trouble,
                "reading_paused_seconds": 12.0,
                "publish_throttled_seconds": 0.0,
                "publish_paced_seconds": 8_400.0 * trouble,
                "publish_parked_seconds": 44.0,
                "groups": 2,
                "groups_lost": 0,
            }
        ],
    }
