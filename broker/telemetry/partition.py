"""Where a metrics file goes: one folder per date and hour, in UTC."""

from datetime import UTC, datetime


def partition_of(wall_us: int) -> str:
    """The folders for a time of day in microseconds since 1970, such as `date=2026-11-21/hour=07`."""
    moment = datetime.fromtimestamp(wall_us / 1e6, UTC)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}"
