"""Table `reasons`: deliveries gated, dropped, superseded or resent, PUBLISHes refused or parked, by reason.

`share_of_offered` is the share of deliveries offered at that QoS for `gated`, `dropped` and
`superseded`, of deliveries sent for `resent`, and of messages received for the reasons about publishing.
"""

from typing import Final

from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import ALL_QOS, HourSums
from spark_jobs.metrics import DROP_REASONS, GATE_REASONS, QOS, drop_column

_PUBLISHING: Final = (  # what, reason, counter
    ("publish", "refused", "publish_refused"),
    ("publish", "parked", "publish_parked"),
    ("publish", "paged", "publish_paged"),
    ("publish", "discarded", "publish_discarded"),
    ("publish", "receive_maximum_exceeded", "receive_maximum_exceeded"),
    ("awaiting_rel", "refused", "awaiting_rel_refused"),
    ("awaiting_rel", "expired", "awaiting_rel_expired"),
)
_RESENT: Final = (("resent", "publish", "resent_publish"), ("resent", "pubrel", "resent_pubrel"))


def reasons(sums: HourSums) -> list[Row]:
    """The rows of the table, also those with 0."""
    rows = [_row(sums, "gated", "0", reason, f"gated_{reason}", "offered") for reason in GATE_REASONS]
    for reason in DROP_REASONS:
        for qos in QOS:
            if (name := drop_column(reason, qos)) is not None:
                rows.append(_row(sums, "dropped", str(qos), reason, name, "offered"))
    rows += [_row(sums, "superseded", str(qos), "newer", f"superseded_qos{qos}", "offered") for qos in QOS]
    rows += [_row(sums, what, ALL_QOS, reason, name, "received") for what, reason, name in _PUBLISHING]
    rows += [_row(sums, what, ALL_QOS, reason, name, "sent") for what, reason, name in _RESENT]
    rows.append(_row(sums, "shared", "1", "returned", "shared_returned", "sent"))
    return rows


def _row(sums: HourSums, what: str, qos: str, reason: str, name: str, whole: str) -> Row:
    return {
        "what": what,
        "qos": qos,
        "reason": reason,
        "deliveries": sums[name],
        "share_of_offered": ratio(sums[name], sums.of(whole, qos)),
    }
