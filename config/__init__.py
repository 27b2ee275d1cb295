"""The configuration of a Sluice broker: models, loading (YAML, environment, flags), checking, rendering."""

from config.access import Authentication, Authorization, ScramUser
from config.errors import ConfigError, Problem
from config.load import Flag, Loaded, check, load
from config.models import Config, Listener, Log, Metrics, Session, Tls
from config.mqtt import Mqtt
from config.render import render

__all__ = [
    "Authentication",
    "Authorization",
    "Config",
    "ConfigError",
    "Flag",
    "Listener",
    "Loaded",
    "Log",
    "Metrics",
    "Mqtt",
    "Problem",
    "ScramUser",
    "Session",
    "Tls",
    "check",
    "load",
    "render",
]
