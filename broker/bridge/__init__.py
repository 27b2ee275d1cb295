"""Bridges: connections that the broker opens to other brokers. A bridge is a session whose client is another broker."""
