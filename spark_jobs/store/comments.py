"""What the store's tables and columns mean, as comments that Delta tables have."""

from collections.abc import Mapping
from typing import Final

from spark_jobs.metrics import DROP_REASONS, QOS, SCHEMA, Field
from spark_jobs.store.schema import DATASETS, GROUPS, INTERVALS, SESSIONS, STARVATION, TIMELINE, TIMES, Column, How

TABLES: Final = {
    SESSIONS: "One row for each session and hour.",
    TIMELINE: "One row for each broker and slot, over all of its sessions; sluice.slot_us is the length of a slot.",
    STARVATION: "One row for each run of starved intervals of a session, split at the end of each hour.",
    INTERVALS: "One row for each broker and end of an interval.",
    GROUPS: "One row for each group of a shared subscription and hour, and one for each of its members.",
    "files": "One row for each raw file and hour that has been taken in.",
    "skipped": "One row for each raw file that could not be used.",
    "brokers": "One row for each broker: up to when its rows have been taken in.",
    "erased": "One row for each range of dropped hours, and for each forgotten client, known by a digest of its id.",
}

_HOUR: Final = "Start of the hour that the ends of the intervals are in."
_OWN: Final[Mapping[str, Mapping[str, str]]] = {
    SESSIONS: {
        "hour_us": _HOUR,
        "client_prefix": "The client id up to its first - _ / . or :; empty without one.",
        "rows": "Intervals.",
        "connected_rows": "Intervals at whose end a client was connected.",
        "duration_us": "How long the session existed in the intervals.",
        "first_us": "Start of the first interval.",
        "last_us": "End of the last interval.",
        "pressed_us": "How long the session existed in intervals under pressure.",
        "pressed_rows": "Intervals under pressure.",
        "starved_rows": "Starved intervals: connected, with deliveries offered or waiting, and nothing sent.",
        "inverted_qos0": "QoS 0 deliveries that overtook waiting deliveries of QoS 1 or 2.",
        "blocked_rows": "Intervals at whose start and end deliveries of QoS 1 or 2 waited.",
        "books_off_rows": "Intervals where waiting_start + offered is not sent + dropped + superseded + waiting.",
        "reasons_off_rows": "Intervals where the drops by reason do not add up to the drops.",
        **{f"away_dropped_qos{qos}": f"QoS {qos} dropped while the client was away, or had left." for qos in QOS},
        **{f"away_waiting_qos{qos}": f"Growth of what waited at QoS {qos} for a client that was away." for qos in QOS},
    },
    TIMELINE: {
        "slot": "Start of the slot that the ends of the intervals are in.",
        "last_us": "End of the last interval.",
    },
    STARVATION: {
        "hour_us": _HOUR,
        "start_us": "Start of the first interval.",
        "end_us": "End of the last interval.",
        "intervals": "Starved intervals: connected, with deliveries offered or waiting, and nothing sent.",
        "offered": "Deliveries at all QoS that the router handed to the session in them.",
        "waiting": "Deliveries at all QoS that waited at the end.",
    },
    INTERVALS: {"rows": "Rows of sessions.", "files": "Raw files that have some of them."},
    GROUPS: {
        "share_group": "The shared subscription, $share/group/filter.",
        "client_id": "The member; empty in the row of the group itself.",
        "hour_us": _HOUR,
        "rows": "Intervals.",
        "duration_us": "How long the session existed in the intervals; of a group their length.",
        "offered": "Deliveries that the router handed to the group's queue; of a member all that it was offered.",
        "sent": "Deliveries that the group handed to members; of a member all that it was sent, for the first time.",
        "dropped": "Deliveries dropped, for any reason.",
        **{f"dropped_{reason}": f"Deliveries dropped, of all QoS: {reason}." for reason in DROP_REASONS},
        "first_us": "Start of the first interval.",
        "last_us": "End of the last interval.",
    },
}
_OF_FILES: Final = {
    "name": "The raw file, relative to the metrics folder.",
    "size": "Its bytes.",
    "modified": "When it was last written.",
    "status": "read, newer, duplicate or overlapping; or why it was skipped: truncated, empty, foreign ...",
    "why": "Explanation of the status; empty for read.",
    "rows": "Rows of the file, by its footer; null if that cannot be read.",
    "rows_here": "Its rows of sessions in the hour.",
    "dropped": "Of these the ones left out, because other files have them too.",
    "first_interval_end": "The first interval_end of its rows; null if unknown.",
    "last_interval_end": "The last one.",
    "late": "Whether it had rows older than those of its broker that had been taken in.",
    "brokers": "The brokers of its rows.",
}
_OF_LEDGERS: Final = {
    "files": _OF_FILES,
    "skipped": _OF_FILES,
    "brokers": {"broker": "Name of the broker.", "last_interval_end": "Up to when its rows have been taken in."},
    "erased": {
        "client_digest": "Salted digest of the client's id; null of a range of hours.",
        "range_start": "Start of the first dropped hour; null of a client.",
        "range_end": "End of the last dropped hour; of a client up to when rows of it are left out.",
    },
}
_RAW: Final = {field.name: field for field in SCHEMA.fields}
_OF_INTERVALS: Final = {field.name: field for field in SCHEMA.interval_fields}
_PRESSED: Final = "pressed_"
_PARTITIONS: Final = {
    "date": "Day of the row's hour, UTC; files are parted by it.",
    "hour": "Hour of that day; files are parted by it.",
}


def comments(table: str) -> dict[str, str]:
    """Name of a stored column -> its comment."""
    if table in _OF_LEDGERS:
        return _OF_LEDGERS[table] | _PARTITIONS
    return {TIMES.get(c.name, c.name): _comment(table, c) for c in DATASETS[table]} | _PARTITIONS


def _comment(dataset: str, column: Column) -> str:
    doc, unit = _doc(dataset, column.name)
    how = column.how.value if column.how not in (How.KEY, How.HISTOGRAM) else ""
    notes = ", ".join(part for part in (how, unit) if part)
    return f"{doc} ({notes})" if notes else doc


def _doc(dataset: str, name: str) -> tuple[str, str]:
    """The text of a column, and its unit."""
    if (own := _OWN[dataset].get(name)) is not None:
        return own, ""
    if dataset == TIMELINE and name in _OF_INTERVALS:
        return _text(_OF_INTERVALS[name])
    if name in _RAW or name.removesuffix("_us") in _RAW:
        return _text(_RAW.get(name) or _RAW[name.removesuffix("_us")])
    doc, unit = _text(_RAW[name.removeprefix(_PRESSED)])
    return f"In intervals under pressure: {doc}", unit


def _text(field: Field) -> tuple[str, str]:
    return field.doc, "" if field.type == "timestamp" else field.unit
