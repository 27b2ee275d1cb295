"""The process: listeners with their sockets and TLS, the log, and shutdown."""
