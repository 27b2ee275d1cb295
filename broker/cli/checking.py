"""What `sluice config check` and `sluice run` find in files that a configuration names, beyond their being there."""

import time

import config
from broker.server.certificate_dates import dates, unusable


def unusable_tls(loaded: config.Loaded) -> list[config.Problem]:
    """TLS sections whose certificate, key, authorities or lists OpenSSL does not take together."""
    return [_problem(loaded, place, why, f"{place}.certfile") for place, why in unusable(loaded.config).items()]


def certificate_dates(loaded: config.Loaded) -> tuple[list[config.Problem], list[str]]:
    """Certificates that are not valid now, and warnings of those that expire soon."""
    wrong, soon = dates(loaded.config, time.time())
    return [_problem(loaded, *each) for each in wrong.items()], [f"{key}: {why}" for key, why in soon.items()]


def _problem(loaded: config.Loaded, key: str, message: str, written: str = "") -> config.Problem:
    """`written`: the key whose place in the file is named, if it is another one."""
    return config.Problem(key, loaded.sources.get(written or key, ""), None, message)
