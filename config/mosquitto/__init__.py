"""Turns a configuration of Mosquitto into one of Sluice: `sluice import mosquitto`."""

from config.mosquitto.draft import Finding, Line, Section
from config.mosquitto.lines import path_of, read
from config.mosquitto.render import document
from config.mosquitto.translation import Translated, translate

__all__ = ["Finding", "Line", "Section", "Translated", "document", "path_of", "read", "translate"]
