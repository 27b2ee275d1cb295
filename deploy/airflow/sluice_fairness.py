"""Airflow: compacts the metrics of Sluice's brokers every hour, and makes a report every day. Airflow 2.10 or 3.

Put this file into the DAGs folder. It is configured by Airflow Variables, read when a task runs (README.md):

- `sluice_metrics`: URI of the metrics folder, such as s3a://fleet/metrics
- `sluice_store`: URI of the store of compacted hours
- `sluice_reports`: URI of the folder with a report folder for each day
- `sluice_command`: the command of the jobs; `sluice` by default, `/opt/sluice/sluice-spark` for a cluster
- `sluice_master`: Spark's master, such as spark://master:7077; empty by default: the machine of the Airflow worker, or
  the master of `sluice-spark`

Both commands can be repeated at any time. A compaction finds all new files, so missed runs need no repetition; a day's
report is always the same, unless rows arrived late.
"""

from datetime import datetime, timedelta, timezone

try:
    from airflow.sdk import DAG
except ImportError:  # Airflow 2
    from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # Airflow 2 without the provider `standard`
    from airflow.operators.bash import BashOperator

from airflow.timetables.interval import CronDataIntervalTimetable

ARGUMENTS = {
    "owner": "sluice",
    "retries": 3,
    "retry_delay": timedelta(minutes=2),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=30),
    "execution_timeout": timedelta(hours=2),
}

# Values are passed to the commands as environment variables: a blank or quote in one cannot change the command.
PLACES = {
    "SLUICE_COMMAND": "{{ var.value.get('sluice_command', 'sluice') }}",
    "SLUICE_METRICS_URI": "{{ var.value.sluice_metrics }}",
    "SLUICE_STORE_URI": "{{ var.value.sluice_store }}",
    "SLUICE_JOB_MASTER": "{{ var.value.get('sluice_master', '') }}",
}

COMPACT = """
set -euo pipefail
exec "$SLUICE_COMMAND" compact --metrics "$SLUICE_METRICS_URI" --store "$SLUICE_STORE_URI" \
    ${SLUICE_JOB_MASTER:+--master "$SLUICE_JOB_MASTER"}
"""

DAY = {
    **PLACES,
    "SLUICE_OUT_URI": "{{ var.value.sluice_reports }}/{{ data_interval_start | ds }}",
    "SLUICE_FROM": "{{ data_interval_start | ds }}",
    "SLUICE_TO": "{{ data_interval_end | ds }}",
    "SLUICE_BASELINE_FROM": "{{ macros.ds_add(data_interval_start | ds, -7) }}",
    "SLUICE_BASELINE_TO": "{{ macros.ds_add(data_interval_end | ds, -7) }}",
}

REPORT = """
set -euo pipefail
exec "$SLUICE_COMMAND" report --store "$SLUICE_STORE_URI" --out "$SLUICE_OUT_URI" \
    --from "$SLUICE_FROM" --to "$SLUICE_TO" --label "$SLUICE_FROM" \
    --baseline "$SLUICE_BASELINE_FROM..$SLUICE_BASELINE_TO" --baseline-label "$SLUICE_BASELINE_FROM" \
    ${SLUICE_JOB_MASTER:+--master "$SLUICE_JOB_MASTER"}
"""

with DAG(
    dag_id="sluice_compact",
    description="Compact new metrics of Sluice's brokers",
    schedule=CronDataIntervalTimetable("7 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),  # noqa: UP017 - Airflow runs on Python before 3.11 too
    catchup=False,
    max_active_runs=1,
    default_args=ARGUMENTS,
    tags=["sluice"],
    doc_md=__doc__,
) as compact_hourly:
    BashOperator(task_id="compact", bash_command=COMPACT, env=PLACES, append_env=True)

with DAG(
    dag_id="sluice_report",
    description="The fairness report of a day, compared with the same day of the week before",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),  # noqa: UP017 - Airflow runs on Python before 3.11 too
    catchup=False,
    max_active_runs=1,
    default_args=ARGUMENTS,
    tags=["sluice"],
    doc_md=__doc__,
) as report_daily:
    # First the day's last files. If the hourly run compacts too, the second to commit starts again.
    compact = BashOperator(task_id="compact", bash_command=COMPACT, env=PLACES, append_env=True)
    report = BashOperator(task_id="report", bash_command=REPORT, env=DAY, append_env=True)
    compact >> report
