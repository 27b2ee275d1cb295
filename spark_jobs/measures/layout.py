"""The columns of every result table: the contract between the measures, the page and readers of the CSV files.

Every table begins with `run`, the label of the run that a row belongs to. Times are microseconds since 1970,
UTC, unless a name says otherwise; shares and ratios are fractions; an undefined value is null.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from spark_jobs.metrics import HISTOGRAMS
from spark_jobs.store.schema import SESSION_COLUMNS, How

RUN: Final = "run"

_TYPES: Final = {
    "text": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
}

Columns = tuple[tuple[str, str], ...]  # name and type (text, int, float, bool)


def _columns(text: str) -> Columns:
    """Parse columns such as `name:text a,b:int`: names separated by commas, and their type."""
    found: list[tuple[str, str]] = []
    for word in text.split():
        names, _, kind = word.partition(":")
        found += [(name, kind) for name in names.split(",")]
    return tuple(found)


def _bounded(*names: str) -> str:
    """A percentile and the bounds of the exact one."""
    return " ".join(f"{name}:float {name}_low,{name}_high:int" for name in names)


_CLIENT: Final = "broker,client_id:text begun:int listener,client_prefix:text"

_RUNS: Final = (
    "runs,longest_intervals,longest_us,longest_start_us,starved_us,first_us,last_us,offered,waiting:int"
)


@dataclass(frozen=True)
class Layout:
    """One result table: its title, and its columns besides `run`."""

    title: str
    columns: Columns

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, `run` first."""
        return pa.schema([(RUN, pa.string()), *[(name, _TYPES[kind]) for name, kind in self.columns]])


LAYOUTS: Final = {
    "totals": Layout(
        "Deliveries of the whole range, by QoS",
        _columns(
            "qos:text offered,due,sent,dropped,acknowledged,resent,waiting_growth,received:int"
            " lost,missed,missed_dropped:int"
            " delivery_ratio,sent_per_second,dropped_per_second,seconds,pressure_share:float"
        ),
    ),
    "timeline": Layout(
        "Deliveries, fairness and pressure over time, by window and QoS",
        _columns(
            "qos:text start_us,window_us,offered,sent,dropped:int"
            " sent_per_second,dropped_per_second,pressed_sessions,jain_delivery_ratio:float"
            " lowest_delivery_ratio:float"
            f" gated,mailbox_max,mqueue_max:int {_bounded('latency_p99')}"
        ),
    ),
    "hours": Layout(
        "Fairness, latency and starvation, hour by hour",
        _columns(
            "hour_us,clients,offered,sent:int delivery_ratio,jain_delivery_ratio,jain_goodput,maxmin_goodput,"
            f"gini_goodput:float {_bounded('ack_qos1_p99', 'ack_qos2_p99', 'wait_qos0_p99')}"
            " starved_sessions,inverted_qos0,dropped,lost:int pressure_share,seconds,mailbox_busy_share:float"
        ),
    ),
    "fairness": Layout(
        "Fairness over clients: all, by broker, by listener and by client id prefix, for each QoS",
        _columns(
            "scope,name,qos:text clients,goodput_clients,left_out,poorly_served,away:int"
            " jain_delivery_ratio,jain_goodput,maxmin_goodput,lowest_delivery_ratio,gini_goodput,"
            "gini_delivery_ratio,mean_goodput,lowest_goodput:float"
        ),
    ),
    "lorenz": Layout(
        "Lorenz curves: the share of the total of the clients with the lowest values",
        _columns("what:text share_clients,share:float"),
    ),
    "reasons": Layout(
        "Deliveries gated, dropped, superseded or resent and PUBLISHes refused or parked, by reason",
        _columns("what,qos,reason:text deliveries:int share_of_offered:float"),
    ),
    "percentiles": Layout(
        "Percentiles of waiting, acknowledgement and mailbox length",
        _columns(
            f"metric,qos,scope,unit:text samples:int {_bounded('p50', 'p95', 'p99')} max_low,max_high:int"
        ),
    ),
    "histograms": Layout(
        "The distributions of the percentiles, bucket by bucket",
        _columns("metric,qos,scope,unit:text bucket,low,high,count:int share:float"),
    ),
    "gate": Layout(
        "Cost and gain of the gate: intervals under pressure and calm ones",
        _columns(
            "qos,scope:text offered,sent,dropped,gated:int session_seconds,delivery_ratio,sent_per_second:float "
            f"{_bounded('delay_p50', 'delay_p99', 'ack_p50', 'ack_p95', 'ack_p99')}"
        ),
    ),
    "inversion": Layout(
        "QoS 0 that overtook waiting QoS 1 and 2",
        _columns("inverted_qos0:int share_of_sent_qos0:float blocked_rows,clients:int"),
    ),
    "inverted_sessions": Layout(
        "The clients with most QoS 0 that overtook waiting QoS 1 and 2",
        _columns(f"{_CLIENT} inverted_qos0,blocked_rows,sent_qos0:int"),
    ),
    "starvation": Layout(
        "Starved clients: all, and the runs of starved intervals by length",
        _columns(
            "length:text least_intervals,most_intervals,runs,clients,longest_intervals:int seconds:float offered:int"
            " episodes:int episode_seconds,episodes_share:float first_us,last_us:int"
        ),
    ),
    "starved_worst": Layout(
        "The clients that were starved longest",
        _columns(
            f"{_CLIENT} {_RUNS}"
            " offered_in_range,sent_in_range:int window_full_share,window_bytes_full_share,rate_limited_share,"
            "congested_share:float window_limit,max_inflight:int why:text"
        ),
    ),
    "head_of_line": Layout(
        "Waiting for the first transmission, and the causes of head-of-line blocking",
        _columns(
            f"qos:text samples:int {_bounded('wait_p50', 'wait_p95', 'wait_p99')} clients,clients_window_full:int"
            " window_full_share,window_bytes_full_share,rate_limited_share,congested_share:float"
        ),
    ),
    "head_of_line_sessions": Layout(
        "The clients whose window was full for the largest part of their time",
        _columns(
            f"{_CLIENT} duration_us:int window_full_share,window_bytes_full_share,rate_limited_share,"
            "congested_share:float window_limit,mqueue_max:int"
        ),
    ),
    "stalled": Layout(
        "Reports of stalled windows and of slow consumers",
        _columns("kind:text reports,clients:int"),
    ),
    "stalled_sessions": Layout(
        "The clients with most reports of stalled windows and slow consumers",
        _columns(f"{_CLIENT} stalled_window,slow_consumer:int window_full_share:float mqueue_max:int"),
    ),
    "publishers": Layout(
        "The noisiest publishers",
        _columns(
            f"{_CLIENT} received,received_qos0,received_qos1,received_qos2,received_bytes:int"
            " share_of_received,share_of_bytes,received_per_second:float"
            " publish_refused,publish_parked,publish_paged,publish_discarded,publish_parked_us,"
            "publish_throttled_us,publish_paced_us,reading_paused_us:int"
        ),
    ),
    "paced_for_sessions": Layout(
        "The clients for which publishers were paced longest",
        _columns(
            f"{_CLIENT} paced_for_us:int paced_for_share:float offered,sent,dropped:int delivery_ratio:float"
            " window_full_share,congested_share:float mqueue_max:int why:text"
        ),
    ),
    "worst_sessions": Layout(
        "The clients with the lowest delivery ratio",
        _columns(
            f"{_CLIENT} offered,due,sent,dropped:int delivery_ratio,goodput:float"
            " offered_qos0,sent_qos0,dropped_qos0,offered_qos1,sent_qos1,dropped_qos1,"
            "offered_qos2,sent_qos2,dropped_qos2,gated:int"
            f" {_bounded('wait_p99')} window_full_share,window_bytes_full_share,rate_limited_share,"
            "congested_share,ack_p1,ack_p50:float"
            " paced_for_us,mqueue_max,mailbox_max,starved_rows,window_limit,max_inflight:int why:text"
        ),
    ),
    "worst_hours": Layout(
        "The worst clients hour by hour",
        _columns(
            f"broker,client_id:text rank,hour_us,offered,sent,dropped:int"
            f" delivery_ratio:float {_bounded('ack_p99', 'wait_p99')} starved_rows:int window_full_share:float"
        ),
    ),
    "dropped_clients": Layout(
        "The clients of which most was dropped while they were there",
        _columns(f"{_CLIENT} due,lost:int share_of_lost:float why:text"),
    ),
    "reconnecting_clients": Layout(
        "The clients of which many sessions began within an hour",
        _columns("broker,client_id:text begun,first_us,last_us:int connected_share:float"),
    ),
    "away_clients": Layout(
        "The clients that missed most because they were away",
        _columns(f"{_CLIENT} offered,missed,missed_dropped:int connected_share:float"),
    ),
    "queues": Layout(
        "Mailboxes, queues and windows over all sessions, and groups of shared subscriptions",
        _columns(
            "mailbox_max,mqueue_max,mqueue_bytes_max,window_max,mailbox_samples,mailbox_busy_samples:int"
            " mailbox_busy_share,window_full_seconds,window_bytes_full_seconds,rate_limited_seconds,"
            "congested_seconds,paced_for_seconds,reading_paused_seconds,publish_throttled_seconds,"
            "publish_paced_seconds,publish_parked_seconds:float groups,groups_lost:int"
        ),
    ),
    "groups": Layout(
        "The groups of shared subscriptions that lost most, or have the slowest members",
        _columns(
            "broker,share_group:text members,offered,sent,dropped,lost,mqueue_max,paced_for_us:int"
            " slowest:text slowest_share,usual_share:float why:text"
        ),
    ),
    "group_members": Layout(
        "The slowest members of these groups",
        _columns("broker,share_group,client_id:text sent:int share_of_sent,blocked_share:float why:text"),
    ),
    "books": Layout(
        "Do the counters reconcile: waiting before + offered = sent + dropped + superseded + waiting after",
        _columns(
            "qos:text rows,rows_off,offered,sent,dropped,superseded,waiting_growth,difference,rows_off_by_reason:int"
        ),
    ),
    "quality": Layout(
        "Faults of the input",
        _columns("kind:text count:int example,words:text"),
    ),
    "files": Layout(
        "The files of the range, and skipped ones",
        _columns("file,status,why:text rows,size:int"),
    ),
    "comparison": Layout(
        "What changed from the baseline, and whether that is statistically significant",
        _columns(
            "measure,name,unit:text baseline,value,difference,ratio:float better:bool test:text"
            " n_baseline,n:int p_value,p_adjusted,effect,effect_low,effect_high:float effect_is_relative:bool"
            " verdict,words:text"
        ),
    ),
}

STARVED_SESSIONS: Final = Layout(
    "All starved clients",
    _columns(f"{_CLIENT} {_RUNS}"),
)
"""`starved_sessions`, whose size depends on the number of clients: in the files only, not on the page."""

_COUNTED: Final = tuple(
    (column.name, "bool" if column.type == "boolean" else "int")
    for column in SESSION_COLUMNS
    if column.how in {How.SUM, How.MAX, How.MIN, How.ANY}
)

CLIENT: Final = Layout(
    "One client, hour by hour",
    (
        *_columns(
            "broker,client_id:text session_started_us:int listener,client_prefix:text"
            " hour_us,offered,due,sent,dropped,gated:int delivery_ratio:float why:text connected_share,"
            "window_full_share,window_bytes_full_share,rate_limited_share,congested_share:float "
            + _bounded(*(f"{name.removesuffix('_buckets')}_p99" for name in HISTOGRAMS))
        ),
        *_COUNTED,
    ),
)
"""`client`: derived figures, then every counter and gauge of the client's sessions; only with `--client`."""
