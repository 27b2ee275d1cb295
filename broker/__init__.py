"""The broker: listeners, connections, session tasks, routing, retained messages, telemetry and the command line.

The only package that knows asyncio, ssl and sockets. MQTT's bytes are `protocol`'s business,
flow control is `session`'s.
"""

__version__ = "0.1.0"
