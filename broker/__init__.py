"""The broker: listeners, connections, scheduling, routing, retained messages, telemetry and the command line.

Only this package uses asyncio, ssl and sockets. `protocol` encodes and decodes packets, `session` does flow control.
"""

__version__ = "0.1.0"
