"""Turns a configuration of Mosquitto into one of Sluice: `sluice import mosquitto`."""

from config.mosquitto.lines import path_of, read
from config.mosquitto.translation import Translated, translate

__all__ = ["Translated", "path_of", "read", "translate"]
