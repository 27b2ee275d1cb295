"""The admin socket: what operators on this machine ask a running broker, such as `sluice top`.

A Unix stream socket that only the broker's own user (and root) may open. One JSON object a line asks, one answers:

    {"command": "sessions", "sort": "mqueue", "limit": 2}
    {"version": 1, "command": "sessions", "sort": "mqueue", "broker": "node", "total": 812, "time_us": 1785571200000000,
     "clock_us": 5081012345, "columns": ["client_id", "mqueue_len", ...], "rows": [["a", 1000, ...], ["b", 17, ...]]}

`command` is `sessions`, `groups` (of shared subscriptions) or `addresses`. `sort` is one of its keys, by default
`mqueue`, of addresses `bytes`; the highest value comes first. `limit` is the number of rows, 1 to 1000, by default 20.
`version` may be given, and then has to be the answer's: it changes when a column or key goes away or gets another
meaning, not when one is added.

`total` is how many there are of what is listed. `time_us` is the time of day at which the list was made, microseconds
since 1970 UTC, and `clock_us` the same on the clock of `started_us`, which never jumps. Lengths are in deliveries,
columns that end in `_bytes` in payload bytes, those in `_us` in microseconds. `window_full_us`, `paced_for_us` (for how
long publishers were held back for it, FC-16), `offered`, `sent`, `acknowledged`, `dropped`, `refused`, `parked` and
`paged` count from the beginning of what is listed: the difference between two answers is what has happened between
them. Names of more than 256 characters are cut and end in an ellipsis.

What cannot be answered is answered by {"version": 1, "error": "what is wrong and what would be right"}.
"""

from typing import Final

VERSION: Final = 1
"""Of the requests and answers."""

MOST_ROWS: Final = 1_000
"""The most that an answer lists."""

DEFAULT_LIMIT: Final = 20
"""What it lists where the request does not say."""
