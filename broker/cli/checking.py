"""What `sluice config check` and `sluice run` find in files that a configuration names, beyond their being there."""

import time

import config
from broker.server.certificate_dates import dates, unusable
from config.mounts import ALONE, REPLACED, is_replaced, mounted_alone, mounted_from


def unusable_tls(loaded: config.Loaded) -> list[config.Problem]:
    """TLS sections whose certificate, key, authorities or lists OpenSSL does not take together."""
    return [_problem(loaded, place, why, f"{place}.certfile") for place, why in unusable(loaded.config).items()]


def certificate_dates(loaded: config.Loaded) -> tuple[list[config.Problem], list[str]]:
    """Certificates that are not valid now, and warnings of those that expire soon."""
    wrong, soon = dates(loaded.config, time.time())
    return [_problem(loaded, *each) for each in wrong.items()], [f"{key}: {why}" for key, why in soon.items()]


def mounts(loaded: config.Loaded) -> tuple[list[config.Problem], list[str]]:
    """Files that have been replaced behind a mount of their own, and warnings of others that are mounted so."""
    found = mounted_alone(loaded.config, loaded.file)
    gone = {key: path for key, path in found.items() if is_replaced(path, mounted_from(path))}
    warnings = [": ".join(filter(None, (key, f"{path} {ALONE}"))) for key, path in found.items() if key not in gone]
    return [_problem(loaded, key, f"{path} {REPLACED}") for key, path in gone.items()], warnings


def _problem(loaded: config.Loaded, key: str, message: str, written: str = "") -> config.Problem:
    """`written`: the key whose place in the file is named, if it is another one."""
    return config.Problem(key, loaded.sources.get(written or key, ""), None, message)
