"""Table `fairness`: indices of evenness over all clients, by broker, listener and client id prefix, for each QoS.

The clients (broker and client id, over all their sessions) are those to which something was due in the scope (all
deliveries, or those of one QoS), see `measures.sessions`. They are compared by:

- **delivery ratio**: x = min(1, sent / due). It shows whether the broker treats clients equally. It is limited to 1
  because an earlier backlog can also be sent.
- **goodput**: x = deliveries sent for the first time (without resends) per second of connection. Its evenness also
  depends on the demand of the clients. Clients connected for less than nine tenths of one interval are left out and
  counted in `left_out`, because a rate over a very short time is meaningless.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Ints, Mask, ints, places
from spark_jobs.measures import evenness
from spark_jobs.measures.evenness import GOODPUT_SCALE, RATIO_SCALE, Evenness
from spark_jobs.measures.result import Row
from spark_jobs.measures.sums import ALL_QOS, EACH_QOS

ALL: Final = "all"
OTHERS: Final = "(others)"
GROUPED_BY: Final = ("broker", "listener", "client_prefix")
WELL_SERVED: Final = 0.95
"""A client with a lower delivery ratio is poorly served."""
MOST_NAMES: Final = 30  # brokers, listeners, and client id prefixes, with their own rows
RATIO: Final = "delivery_ratio"
GOODPUT: Final = "goodput"


def long_enough(connected_us: Ints, interval_us: int) -> Mask:
    """Whether a session was connected long enough for a meaningful goodput."""
    found: Mask = connected_us >= max(1, interval_us * 9 // 10)
    return found


def of_qos(prefix: str, qos: str) -> str:
    """The column of a counter of one QoS, or of all."""
    return prefix if qos == ALL_QOS else f"{prefix}_qos{qos}"


def values_of(
    due: Ints, sent: Ints, connected_us: Ints, interval_us: int
) -> dict[str, tuple[Mask, Ints]]:
    """Compared quantity -> which clients count, and the values of these."""
    demand: Mask = due > 0
    rated: Mask = demand & long_enough(connected_us, interval_us)
    return {
        RATIO: (demand, evenness.delivery_ratio(sent[demand], due[demand])),
        GOODPUT: (rated, evenness.goodput(sent[rated], connected_us[rated])),
    }


def poorly_served(sessions: pa.Table, qos: str = ALL_QOS) -> Mask:
    """Which clients were sent less than WELL_SERVED of what was due to them."""
    due, sent = (ints(sessions, of_qos(name, qos)) for name in ("due", "sent"))
    found: Mask = sent < due * WELL_SERVED
    return found


def away(sessions: pa.Table, qos: str = ALL_QOS) -> Mask:
    """Which clients missed something because they were away."""
    found: Mask = ints(sessions, of_qos("due", qos)) < ints(sessions, of_qos("offered", qos))
    return found


def largest_groups(sessions: pa.Table) -> dict[str, list[str]]:
    """The brokers, listeners and client id prefixes with most sessions, largest first, at most MOST_NAMES each."""
    found = {}
    for scope in GROUPED_BY:
        counts = sorted(Counter(sessions[scope].to_pylist()).items(), key=lambda item: (-item[1], item[0]))
        found[scope] = [name for name, _ in counts[:MOST_NAMES]]
    return found


def fairness(sessions: pa.Table, interval_us: int, groups: Mapping[str, Sequence[str]]) -> list[Row]:
    """The rows of the table.

    Args:
        sessions: one row per client, see `sessions.per_client`.
        interval_us: the usual interval.
        groups: the names with their own rows, see `largest_groups`; the rest is "(others)".
    """
    connected = ints(sessions, "connected_us")
    flows = {qos: [ints(sessions, of_qos(name, qos)) for name in ("due", "sent")] for qos in EACH_QOS}
    values = {qos: values_of(due, sent, connected, interval_us) for qos, (due, sent) in flows.items()}
    marked = {
        qos: {"poorly_served": poorly_served(sessions, qos), "away": away(sessions, qos)} for qos in EACH_QOS
    }
    rows = []
    for scope, name, inside in _scopes(sessions, groups):
        for qos in EACH_QOS:
            ratio, rate = (Evenness.of(x[inside[which]]) for which, x in values[qos].values())
            if ratio.n or scope == ALL:
                numbers = {kind: int((which & inside).sum()) for kind, which in marked[qos].items()}
                rows.append({"scope": scope, "name": name, "qos": qos, **numbers, **_indices(ratio, rate)})
    return rows


def _scopes(sessions: pa.Table, groups: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, Mask]]:
    """Scope, name, and which sessions are in it."""
    yield ALL, "", np.ones(sessions.num_rows, np.bool_)
    for scope, names in groups.items():
        place = places(sessions[scope])
        sorted_names = sorted(set(sessions[scope].to_pylist()), key=str.encode)
        rest = np.ones(sessions.num_rows, np.bool_)
        for name in names:
            inside: Mask = place == sorted_names.index(name)
            rest &= ~inside
            yield scope, name, inside
        yield scope, OTHERS, rest


def _indices(ratio: Evenness, rate: Evenness) -> Row:
    return {
        "clients": ratio.n,
        "goodput_clients": rate.n,
        "left_out": ratio.n - rate.n,
        "jain_delivery_ratio": ratio.jain,
        "jain_goodput": rate.jain,
        "maxmin_goodput": rate.maxmin,
        "lowest_delivery_ratio": ratio.lowest(RATIO_SCALE),
        "gini_goodput": rate.gini,
        "gini_delivery_ratio": ratio.gini,
        "mean_goodput": rate.mean(GOODPUT_SCALE),
        "lowest_goodput": rate.lowest(GOODPUT_SCALE),
    }
