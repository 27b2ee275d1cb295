"""What `sluice config check` and `sluice run` find in files that a configuration names, beyond their being there."""

import time
from typing import Final

import config
from broker.auth.authenticators import users_file
from broker.auth.rule_files import mosquitto_acl
from broker.server.certificate_dates import dates, unusable
from config.files import writable_by_others
from config.mounts import ALONE, mount_of, mounted_alone, named_files, replaced

_UNVERIFIED: Final = (
    "with false whoever is in between can read and change everything, and gets the password: name the authorities of "
    "the other broker's certificate as cafile, and set verify: true"
)


def unusable_tls(loaded: config.Loaded) -> list[config.Problem]:
    """TLS sections whose certificate, key, authorities or lists OpenSSL does not take together."""
    return [_problem(loaded, place, why, f"{place}.certfile") for place, why in unusable(loaded.config).items()]


def certificate_dates(loaded: config.Loaded) -> tuple[list[config.Problem], list[str]]:
    """Certificates that are not valid now, and warnings of those that expire soon."""
    wrong, soon = dates(loaded.config, time.time())
    return [_problem(loaded, *each) for each in wrong.items()], [f"{key}: {why}" for key, why in soon.items()]


def access_files(loaded: config.Loaded) -> tuple[list[config.Problem], list[str]]:
    """Why an ACL file or keys of tokens cannot be used, and warnings of lines of a password file that are left out."""
    problems, warnings = [], []
    acl_file, password_file = loaded.config.authorization.acl_file, loaded.config.authentication.password_file
    if acl_file is not None:
        try:
            mosquitto_acl.read(acl_file)
        except ValueError as error:
            problems.append(_problem(loaded, mosquitto_acl.KEY, f"{acl_file}: {error}"))
    tokens = loaded.config.authentication.jwt
    if tokens is not None:
        from broker.auth.authenticators.token_keys import TokenKeys

        key = f"authentication.jwt.{'key_file' if tokens.key_file is not None else 'jwks_file'}"
        try:
            TokenKeys(tokens)  # reads a file, and fetches nothing
        except OSError as error:
            problems.append(_problem(loaded, key, str(error).removeprefix(f"{key}: ")))
    if password_file is not None:
        contents = users_file.read(password_file)
        mistakes = [str(each) for each in contents.mistakes]
        if not contents.users:
            mistakes.append("it has no users: all logins by it are refused")
        warnings = [f"authentication.password_file: {password_file}: {each}" for each in mistakes]
    return problems, warnings


def bridges(loaded: config.Loaded) -> list[str]:
    """A warning of each bridge that takes any certificate."""
    unverified = [i for i, each in enumerate(loaded.config.bridges) if each.tls is not None and not each.tls.verify]
    return [f"bridges[{index}].tls.verify: {_UNVERIFIED}" for index in unverified]


def journal(loaded: config.Loaded) -> list[str]:
    """Warnings of a directory that a broker of this user refuses, and of journals of another number of workers.

    For other users than root the first one is a mistake.
    """
    from broker.resharding.layout import layout_of

    directory, workers = loaded.config.persistence.directory, loaded.config.cluster.count
    if directory is None:
        return []
    why = writable_by_others(directory)
    found = [f"persistence.directory: unless the broker runs as another user than this one: {why}"] if why else []
    try:
        change = layout_of(directory).change_to(workers)
    except OSError:
        change = ""  # it is another user's
    return [*found, *([f"persistence.directory: {change}"] if change else [])]


def mounts(loaded: config.Loaded) -> tuple[list[config.Problem], list[str]]:
    """Files that have been replaced behind a mount, and warnings of others that are mounted by themselves."""
    named = named_files(loaded.config, loaded.file)
    gone = {key: why for key, path in named.items() if (why := replaced(path, mount_of(path)))}
    alone = mounted_alone(loaded.config, loaded.file)
    warnings = [": ".join(filter(None, (key, f"{path} {ALONE}"))) for key, path in alone.items() if key not in gone]
    return [_problem(loaded, key, f"{named[key]} {why}") for key, why in gone.items()], warnings


def _problem(loaded: config.Loaded, key: str, message: str, written: str = "") -> config.Problem:
    """`written`: the key whose place in the file is named, if it is another one."""
    return config.Problem(key, loaded.sources.get(written or key, ""), None, message)
