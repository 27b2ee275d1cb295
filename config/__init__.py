"""The configuration of a Sluice broker: models, loading (YAML, environment, flags), checking, rendering."""

from config.errors import ConfigError, Problem
from config.load import Flag, Loaded, check, load
from config.models import Config, Listener, Log, Metrics, Mqtt, Session, Tls
from config.render import render

__all__ = [
    "Config",
    "ConfigError",
    "Flag",
    "Listener",
    "Loaded",
    "Log",
    "Metrics",
    "Mqtt",
    "Problem",
    "Session",
    "Tls",
    "check",
    "load",
    "render",
]
