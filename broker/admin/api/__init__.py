"""The endpoints of the admin API. Only `load` is imported by the rest of the broker, and only at the first request."""
