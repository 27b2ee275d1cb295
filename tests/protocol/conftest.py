"""Settings of the property tests: they have no time limit, because the machine may be busy."""

from hypothesis import HealthCheck, settings

settings.register_profile("protocol", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("protocol")
