"""The admin socket: operators on this machine query a running broker, for example with `sluice top`.

It is a Unix stream socket that only the broker's user and root may open. Requests and answers are one JSON object per
line:

    {"command": "sessions", "sort": "mqueue", "limit": 2}
    {"version": 1, "command": "sessions", "sort": "mqueue", "broker": "node", "total": 812, "time_us": 1785571200000000,
     "clock_us": 5081012345, "columns": ["client_id", "mqueue_len", ...], "rows": [["a", 1000, ...], ["b", 17, ...]]}

`command` is `sessions`, `groups` (of shared subscriptions) or `addresses`. `sort` is one of the list's keys, by default
`mqueue`, for addresses `bytes`; the highest value comes first. `limit` is the number of rows, 1 to 1000, by default 20.
`version` is optional and must be the same as in the answer. It changes when a column or key is removed or changes its
meaning, not when one is added.

`total` is the number of items in the whole list. `time_us` is the time of day of the list, in microseconds since 1970
UTC; `clock_us` is the same moment on the monotonic clock, which `started_us` uses too. Lengths are in deliveries,
columns ending in `_bytes` in payload bytes, those ending in `_us` in microseconds. `window_full_us`, `paced_for_us`
(for how long publishers were paced for the item, FC-16), `offered`, `sent`, `acknowledged`, `dropped`, `refused`,
`parked` and `paged` are totals since the item was created: the difference of two answers covers the time between.
Names of more than 256 characters are cut and end in an ellipsis.

Errors are {"version": 1, "error": "what is wrong and what is expected"}.
"""

from typing import Final

VERSION: Final = 1
"""Version of the requests and answers."""

MOST_ROWS: Final = 1_000
"""The most rows of an answer."""

DEFAULT_LIMIT: Final = 20
"""Rows of an answer if the request has no limit."""
