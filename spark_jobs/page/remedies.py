"""What to do about clients that were starved or poorly served, with the value now and what to set."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Row

_SERIAL: Final = 0.5
"""From this share of the window on, as a factor between acknowledgements, the client handles one after the other."""


def remedy(rows: Sequence[Row]) -> tuple[str, str]:
    """The case of more than half of the rows, as `case_of` has it, and what to do about the first of these."""
    cases = [case_of(row) for row in rows]
    for case, number in Counter(cases).most_common(1):
        if case and 2 * number > len(rows):
            return case, filled(formats.ADVICE["remedies"].get(case, ""), rows[cases.index(case)])
    return "", ""


def case_of(row: Row) -> str:
    """A row's `why`; of a full window also whose it is.

    That of a client is its own Receive Maximum, or is full because the client is slow or stuck.
    """
    why: str = row["why"]
    if why != "window_full" or "window_limit" not in row:
        return why
    if 0 < row["window_limit"] < row["max_inflight"]:
        return "window_full_own"
    if "ack_p50" not in row:  # it was starved
        return "window_full_stuck"
    typical, least = row["ack_p50"], row["ack_p1"]
    slow = typical is not None and typical >= max(2.0, _SERIAL * row["window_limit"]) * max(1.0, least)
    return "window_full_slow" if slow else why


def filled(text: str, row: Row) -> str:
    """A text with the values of a row in place of their names; empty if one of them is unknown."""
    values: dict[str, str] = {}
    if "window_limit" in row:
        values = {"max_inflight": f"{row['max_inflight']:,}", "window": f"{row['window_limit']:,}"}
        if share := row.get("delivery_ratio"):
            values["more"] = f"{math.ceil(row['window_limit'] / share):,}"
            if row["goodput"]:
                values |= {"rate": formats.short(row["goodput"]), "more_rate": formats.short(row["goodput"] / share)}
    return text.format(**values) if all(name in values for name in _names(text)) else ""


def _names(text: str) -> list[str]:
    return [part.partition("}")[0] for part in text.split("{")[1:]]
