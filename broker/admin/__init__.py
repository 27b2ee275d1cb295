"""The admin API: operators and their programs see and change a running broker over HTTP.

It is served on a Unix socket that only the broker's user and root may open (`admin.socket`), and over TCP with tokens
if `admin.listen` says so. `sluice top` and `sluice ctl` are its clients, and so is curl:

    curl --unix-socket /run/user/1000/sluice/node.sock http://sluice/api/v1/sessions?sort=mqueue

    GET /health, /ready           whether the process works, and whether clients should be sent to it
    GET /metrics                  for Prometheus
    GET /                         the dashboard, for browsers
    GET /api/v1/...               lists and settings; /api/v1/openapi.json describes them
    POST, DELETE /api/v1/...      actions, for operators; each is written to the audit log

It runs on the event loop of the broker, which owns the data, in slices of at most a millisecond. FastAPI and what it
needs are imported in a thread at the first request, so that a broker without admin requests does not load them.

This package is what serves it; `api` has the endpoints, `dashboard` the page, and the lists are beside them.
"""
