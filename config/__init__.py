"""The configuration of a Sluice broker: models, loading (YAML, environment, flags), checking, rendering."""

from config.access import Authentication, Authorization, ScramUser
from config.address_settings import AddressSettings
from config.admin import Admin, Token
from config.dead_letters import dead_letter_warnings
from config.drop_events import DropEvents
from config.errors import ConfigError, Problem
from config.load import Flag, Loaded, check, load
from config.memory import too_low
from config.models import Config, Listener, Log, Metrics
from config.mqtt import Mqtt
from config.quota import Quota
from config.render import render, settings
from config.rule import Rule
from config.session import Priority, Session, SlowConsumer
from config.tls import Tls

__all__ = [
    "AddressSettings",
    "Admin",
    "Authentication",
    "Authorization",
    "Config",
    "ConfigError",
    "DropEvents",
    "Flag",
    "Listener",
    "Loaded",
    "Log",
    "Metrics",
    "Mqtt",
    "Priority",
    "Problem",
    "Quota",
    "Rule",
    "ScramUser",
    "Session",
    "SlowConsumer",
    "Tls",
    "Token",
    "check",
    "dead_letter_warnings",
    "load",
    "render",
    "settings",
    "too_low",
]
