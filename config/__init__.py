"""The configuration of a Sluice broker: models, loading (YAML, environment, flags), checking, rendering."""

from config.access import Authentication, Authorization, ScramUser
from config.address_settings import AddressSettings
from config.admin import Admin
from config.errors import ConfigError, Problem
from config.load import Flag, Loaded, check, load
from config.models import Config, Listener, Log, Metrics, Tls
from config.mqtt import Mqtt
from config.render import render
from config.rule import Rule
from config.session import Priority, Session, SlowConsumer

__all__ = [
    "AddressSettings",
    "Admin",
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
    "Priority",
    "Problem",
    "Rule",
    "ScramUser",
    "Session",
    "SlowConsumer",
    "Tls",
    "check",
    "load",
    "render",
]
