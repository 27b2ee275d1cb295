"""Turns a configuration of Mosquitto into one of Sluice: `sluice import mosquitto`."""

from config.mosquitto.lines import read
from config.mosquitto.paths import Paths, mapping
from config.mosquitto.translation import Translated, translate

__all__ = ["Paths", "Translated", "mapping", "read", "translate"]
