"""The configuration of a Sluice broker: models, loading from YAML, environment and flags, checking, rendering."""

from config.models import Config, Listener, Log, Metrics, Mqtt, Session, Tls

__all__ = ["Config", "Listener", "Log", "Metrics", "Mqtt", "Session", "Tls"]
