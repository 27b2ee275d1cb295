"""Reads Mosquitto's persistence file (mosquitto.db) into a new journal. Read once, so not compiled."""
