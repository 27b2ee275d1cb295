"""Which options above the first `listener` make Mosquitto open its default listener, on port 1883."""

from typing import Final

from config.imported.draft import Line
from config.mosquitto import values

_WITH_ANY_VALUE: Final = {
    *("port", "bind_address", "bind_interface", "socket_domain", "cafile", "capath", "certfile", "keyfile", "crlfile"),
    *("ciphers", "ciphers_tls1.3", "dhparamfile", "tls_engine", "tls_engine_kpass_sha1", "psk_hint"),
    *("password_file", "psk_file", "plugin", "auth_plugin"),
}
_WITH_TRUE: Final = {
    *("require_certificate", "use_identity_as_username", "use_subject_as_username", "use_username_as_clientid"),
}
_DEFAULTS: Final = {
    "max_qos": ("2",),
    "protocol": ("mqtt",),
    "tls_keyform": ("pem",),
    "allow_zero_length_clientid": ("true", "1"),
}
"""Options that count with another value than these."""

OF_SECURITY: Final = {
    *("allow_anonymous", "password_file", "acl_file", "psk_file", "plugin", "auth_plugin"),
    "allow_zero_length_clientid",
}
"""Options that are about the default listener only with per_listener_settings, else about all."""


def opens(name: str, line: Line) -> bool:
    """Whether an option does: Mosquitto counts some options only with a value that is not the default."""
    first = values.word(line.value)
    if name in _WITH_ANY_VALUE:
        return True
    if name in _WITH_TRUE:
        return first in ("true", "1")
    if name == "max_connections":
        return values.whole()(first) >= 0
    return name in _DEFAULTS and first not in _DEFAULTS[name]
