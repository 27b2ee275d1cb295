"""The report's main measures as DuckDB's SQL, from the compacted datasets: exact, by sorting where Spark's job counts.

Column names are those of `spark_jobs.measures.layout`, so that the results can be put side by side.
"""

from typing import Final

from spark_jobs.metrics import HISTOGRAMS

POINTS: Final = 100
TOLERANCE_US: Final = 1_000_000
PER_MILLE: Final = {"p50": 500, "p95": 950, "p99": 990}
_CLIENT: Final = "broker, client_id"
_SCOPES: Final = {"all": "''", "listener": "listener", "client_prefix": "client_prefix"}
_BY_QOS: Final = ("offered", "due", "sent", "dropped")


def _total(what: str) -> str:
    return f"({what}_qos0 + {what}_qos1 + {what}_qos2)"


def _of(what: str, qos: str) -> str:
    return _total(what) if qos == "all" else f"{what}_qos{qos}"


def _due(qos: int, sum_of: str) -> str:
    """What was offered less what the client missed because it was away; `sum_of` is how a column is added up."""
    offered, dropped, after, before, kept, connected = (
        sum_of.format(name)
        for name in (
            *(f"{name}_qos{qos}" for name in ("offered", "away_dropped", "waiting", "waiting_start", "away_waiting")),
            "connected_us",
        )
    )
    missed = f"{dropped} + greatest(least({after} - {before}, {kept}), 0)"
    return f"(CASE WHEN {connected} > 0 THEN greatest({offered} - ({missed}), 0) ELSE 0 END)::BIGINT AS due_qos{qos}"


def per_client() -> str:
    """One row per client, QoS (all, 0, 1, 2): offered, due, sent, dropped, time connected."""
    names = [f"{what}_qos{qos}" for what in _BY_QOS if what != "due" for qos in range(3)]
    sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in names)
    due = ", ".join(_due(qos, "sum({})") for qos in range(3))
    source = (
        f"SELECT {_CLIENT}, arg_max(listener, hour_us) AS listener, any_value(client_prefix) AS client_prefix,"
        f" sum(connected_us)::BIGINT AS connected_us, {sums}, {due} FROM sessions GROUP BY {_CLIENT}"
    )
    parts = []
    for qos in ("all", "0", "1", "2"):
        values = ", ".join(f"({_of(what, qos)})::BIGINT AS {what}" for what in _BY_QOS)
        parts.append(
            f"SELECT {_CLIENT}, '{qos}' AS qos, listener, client_prefix, connected_us, {values} FROM ({source})"
        )
    return "CREATE OR REPLACE TEMP TABLE per_client AS " + " UNION ALL ".join(parts)


def totals() -> str:
    """Deliveries by QoS."""
    sums = ", ".join(f"sum({what})::BIGINT AS {what}" for what in _BY_QOS)
    ratio = "sum(least(sent, due)) / sum(due)"
    return f"SELECT qos, {sums}, {ratio} AS delivery_ratio FROM per_client GROUP BY qos ORDER BY qos"


def fairness(least_us: int) -> str:
    """Jain's indices, max-min share and Gini's coefficients, by scope and QoS.

    Args:
        least_us: a client's goodput counts if it was connected for so long.
    """
    parts = []
    for scope, name in _SCOPES.items():
        parts.append(f"""
            WITH x AS (
                SELECT {name} AS name, qos, least(1.0::DOUBLE, sent / due) AS ratio,
                    CASE WHEN connected_us >= {least_us} THEN sent * 1e6 / connected_us END AS goodput
                FROM per_client WHERE due > 0
            ), placed AS (
                SELECT *, row_number() OVER (PARTITION BY name, qos ORDER BY ratio NULLS LAST) AS ratio_place,
                    row_number() OVER (PARTITION BY name, qos ORDER BY goodput NULLS LAST) AS goodput_place
                FROM x
            )
            SELECT '{scope}' AS scope, name, qos, count(*) AS clients, count(goodput) AS goodput_clients,
                {_jain("ratio")} AS jain_delivery_ratio, {_jain("goodput")} AS jain_goodput,
                min(goodput) / nullif(avg(goodput), 0) AS maxmin_goodput, min(ratio) AS lowest_delivery_ratio,
                {_gini("goodput")} AS gini_goodput, {_gini("ratio")} AS gini_delivery_ratio
            FROM placed GROUP BY name, qos
        """)
    return " UNION ALL ".join(f"({part})" for part in parts) + " ORDER BY scope, name, qos"


def _jain(x: str) -> str:
    return f"sum({x}) * sum({x}) / nullif(count({x}) * sum({x} * {x}), 0)"


def _gini(x: str) -> str:
    """Calculated from the ranks of the sorted values."""
    n = f"count({x})"
    return f"2 * sum({x} * {x}_place) / nullif({n} * sum({x}), 0) - ({n} + 1) / {n}"


def lorenz(least_us: int) -> str:
    """101 points of each curve, with linear interpolation."""
    values = {
        "goodput": (
            "SELECT sent * 1e6 / connected_us AS x FROM per_client"
            f" WHERE qos = 'all' AND due > 0 AND connected_us >= {least_us}"
        ),
        "delivery_ratio": (
            "SELECT least(1.0::DOUBLE, sent / due) AS x FROM per_client WHERE qos = 'all' AND due > 0"
        ),
        "offered": "SELECT due::DOUBLE AS x FROM per_client WHERE qos = 'all' AND due > 0",
    }
    parts = []
    for what, query in values.items():
        parts.append(f"""
            WITH placed AS (
                SELECT x, row_number() OVER (ORDER BY x) AS place,
                    sum(x) OVER (ORDER BY x ROWS UNBOUNDED PRECEDING) AS upto
                FROM ({query})
            ), whole AS (SELECT count(*) AS n, sum(x) AS total FROM placed),
            points AS (SELECT k, k * n / {POINTS} AS cut, total FROM range({POINTS + 1}) AS r(k), whole)
            SELECT '{what}' AS what, k / {POINTS} AS share_clients,
                (coalesce(max(upto) FILTER (place <= cut), 0)
                 + coalesce(max(x) FILTER (place = floor(cut) + 1), 0) * (any_value(cut) - floor(any_value(cut))))
                / any_value(total) AS share
            FROM points, placed WHERE place <= cut + 1 GROUP BY k
        """)
    return " UNION ALL ".join(f"({part})" for part in parts) + " ORDER BY what, share_clients"


def histograms() -> str:
    """The sums of all histograms over the range: name, bucket, samples."""
    names = [*HISTOGRAMS, "pressed_wait_qos0_buckets", "pressed_ack_qos1_buckets", "pressed_ack_qos2_buckets"]
    parts = [f"SELECT '{name}' AS name, unnest({name}) AS entry FROM sessions" for name in names]
    return f"""
        SELECT name, entry % 256 AS bucket, sum(entry // 256)::BIGINT AS samples FROM ({" UNION ALL ".join(parts)})
        GROUP BY ALL ORDER BY name, bucket
    """


def percentiles() -> str:
    """The bounds of the bucket that holds the percentile of nearest rank."""
    low = "CASE WHEN bucket < 16 THEN bucket ELSE (bucket % 8 + 8) << (bucket // 8 - 1)::INTEGER END"
    picks = ", ".join(
        f"min({low}) FILTER (upto * 1000 >= total * {per_mille}) AS {name}_low" for name, per_mille in PER_MILLE.items()
    )
    return f"""
        WITH placed AS (
            SELECT *, sum(samples) OVER (PARTITION BY name) AS total,
                sum(samples) OVER (PARTITION BY name ORDER BY bucket ROWS UNBOUNDED PRECEDING) AS upto
            FROM ({histograms()})
        )
        SELECT name, any_value(total)::BIGINT AS samples, {picks} FROM placed WHERE total > 0
        GROUP BY name ORDER BY name
    """


def hours(least_us: int) -> str:
    """Jain's indices of each hour."""
    due = ", ".join(_due(qos, "{}") for qos in range(3))
    return f"""
        WITH x AS (
            SELECT hour_us, {_CLIENT}, sum(connected_us) AS connected_us, sum({_total("due")}) AS due, sum(sent) AS sent
            FROM (SELECT hour_us, {_CLIENT}, connected_us, {_total("sent")} AS sent, {due} FROM sessions)
            GROUP BY hour_us, {_CLIENT}
        ), y AS (
            SELECT hour_us, CASE WHEN due > 0 THEN least(1.0::DOUBLE, sent / due) END AS ratio,
                CASE WHEN due > 0 AND connected_us >= {least_us} THEN sent * 1e6 / connected_us END AS goodput
            FROM x
        )
        SELECT hour_us, count(ratio) AS clients, {_jain("ratio")} AS jain_delivery_ratio,
            {_jain("goodput")} AS jain_goodput
        FROM y GROUP BY hour_us ORDER BY hour_us
    """


def starved_sessions(least: int = 3) -> str:
    """Clients with a run of at least so many starved intervals; adjacent runs are joined."""
    return f"""
        WITH begun AS (
            SELECT *, start_us - lag(end_us) OVER (PARTITION BY {_CLIENT} ORDER BY start_us) AS gap FROM starvation
        ), numbered AS (
            SELECT *, count(*) FILTER (gap IS NULL OR abs(gap) > {TOLERANCE_US})
                OVER (PARTITION BY {_CLIENT} ORDER BY start_us ROWS UNBOUNDED PRECEDING) AS run FROM begun
        ), runs AS (
            SELECT {_CLIENT}, sum(intervals)::BIGINT AS intervals, max(end_us) - min(start_us) AS length_us
            FROM numbered GROUP BY {_CLIENT}, run
        )
        SELECT {_CLIENT}, count(*) AS runs, max(intervals) AS longest_intervals, max(length_us) AS longest_us
        FROM runs WHERE intervals >= {least} GROUP BY {_CLIENT} ORDER BY {_CLIENT}
    """


def inversion() -> str:
    """QoS 0 that overtook what waited."""
    return (
        "SELECT sum(inverted_qos0)::BIGINT AS inverted_qos0, sum(blocked_rows)::BIGINT AS blocked_rows,"
        f" count(DISTINCT ({_CLIENT})) FILTER (inverted_qos0 > 0) AS clients FROM sessions"
    )


def tables(least_us: int) -> dict[str, str]:
    """The queries of all tables, by name; `per_client` has to be created first."""
    return {
        "totals": totals(),
        "fairness": fairness(least_us),
        "lorenz": lorenz(least_us),
        "percentiles": percentiles(),
        "hours": hours(least_us),
        "starved_sessions": starved_sessions(),
        "inversion": inversion(),
    }
