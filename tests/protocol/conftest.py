"""Settings of the property tests: a busy machine must not make them fail."""

from hypothesis import HealthCheck, settings

settings.register_profile("protocol", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("protocol")
