"""The process: sockets and TLS for its listeners, its log, and how it ends."""
