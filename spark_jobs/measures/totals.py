"""Tables `totals`, `books` and `queues`: deliveries of the whole range, reconciliation, lengths of queues."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.measures.fairness import of_qos
from spark_jobs.measures.numbers import per_second, ratio, seconds
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import ALL_QOS, EACH_QOS, HourSums, Sums

_GAUGES: Final = ("mailbox_max", "mqueue_max", "mqueue_bytes_max", "window_max")
_CLOCKS: Final = (
    "window_full",
    "window_bytes_full",
    "rate_limited",
    "congested",
    "paced_for",
    "reading_paused",
    "publish_throttled",
    "publish_paced",
    "publish_parked",
)


def of_clients() -> dict[str, Column]:
    """What `totals` needs of all clients, of rows of `sessions.per_client`."""
    found: dict[str, Column] = {}
    for qos in EACH_QOS:
        due, sent, dropped = (of_qos(name, qos) for name in ("due", "sent", "away_dropped"))
        sums = {"due": due, "missed": of_qos("offered", qos) - due, "served": F.least(sent, due), "away": dropped}
        found |= {f"{name}_{qos}": F.sum(column) for name, column in sums.items()}
    return found


def totals(hours: Sums, clients: Mapping[str, int]) -> list[Row]:
    """The rows of `totals`: counts over the whole range, and rates over the time that its rows are about.

    Args:
        hours: the sums of every hour.
        clients: see `of_clients`.
    """
    rows: list[Row] = []
    sums = hours.whole
    for qos in EACH_QOS:
        due, missed, served, away = (clients[f"{name}_{qos}"] for name in ("due", "missed", "served", "away"))
        lost = sums.count("dropped", qos) - away
        resent = sums["resent_publish"] + sums["resent_pubrel"]
        rows.append(
            {
                "qos": qos,
                "offered": sums.of("offered", qos),
                "sent": sums.of("sent", qos),
                "dropped": sums.of("dropped", qos),
                "acknowledged": sums.of("acknowledged", qos),
                "resent": resent if qos == ALL_QOS else None,  # not counted by QoS
                "waiting_growth": _growth(sums, qos),
                "received": sums.of("received", qos),
                "due": due,
                "lost": lost,
                "missed": missed,
                "missed_dropped": min(missed, away),
                "delivery_ratio": ratio(served, due),
                "sent_per_second": per_second(sums.of("sent", qos), hours.covered_us),
                "dropped_per_second": per_second(lost, hours.covered_us),
                "seconds": seconds(hours.covered_us),
                "pressure_share": sums.pressure_share,  # of the sessions, not of a QoS
            }
        )
    return rows


def _growth(sums: HourSums, qos: str) -> int:
    """The difference of deliveries waiting at the ends and at the starts of intervals."""
    return sums.count("waiting", qos) - sums.count("waiting_start", qos)


def books(sums: HourSums) -> list[Row]:
    """The rows of `books`: before + offered = sent + dropped + superseded + waiting after, in sum and row by row."""
    rows: list[Row] = []
    for qos in EACH_QOS:
        offered, sent, dropped, superseded = (
            sums.count(name, qos) for name in ("offered", "sent", "dropped", "superseded")
        )
        growth = _growth(sums, qos)
        rows.append(
            {
                "qos": qos,
                "rows": sums["rows"],
                "offered": offered,
                "sent": sent,
                "dropped": dropped,
                "superseded": superseded,
                "waiting_growth": growth,
                "difference": offered - sent - dropped - superseded - growth,
            }
        )
    rows[0] |= {"rows_off": sums["books_off_rows"], "rows_off_by_reason": sums["reasons_off_rows"]}
    return rows


def queues(sums: HourSums, groups: Row) -> list[Row]:
    """The row of `queues`: maximum lengths, busy mailboxes, session seconds by cause of blocking, and groups."""
    row: dict[str, object] = {name: sums[name] for name in _GAUGES}
    row |= {
        "mailbox_samples": sums["mailbox_samples"],
        "mailbox_busy_samples": sums["mailbox_busy_samples"],
        "mailbox_busy_share": ratio(sums["mailbox_busy_samples"], sums["mailbox_samples"]),
    }
    row |= {f"{name}_seconds": seconds(sums[f"{name}_us"]) for name in _CLOCKS}
    return [row | groups]


def received(sums: HourSums) -> Mapping[str, int]:
    """Messages and payload bytes received from all publishers."""
    return {"messages": sums.count("received", ALL_QOS), "bytes": sums["received_bytes"]}
