"""Files of rules: ours, and Mosquitto's. Read when they change, so not compiled."""
