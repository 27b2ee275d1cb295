"""TLS of Mosquitto's bridges, and of those that they become: never with less protection."""

from collections.abc import Callable
from typing import Final

from config.ciphers import check_ciphers
from config.imported.draft import Line, Section
from config.mosquitto import values
from config.mosquitto.connection import Connection

PSK: Final = "TLS with pre-shared keys has no counterpart: use certificates (tls). The bridge is not enabled"
OCSP: Final = (
    "Sluice asks for no OCSP response: remove the line, if the certificate alone is enough. The bridge is not enabled"
)
DIRECTORY: Final = (
    "the authorities have to be in one file: cat DIR/*.crt > ca.pem, then tls.cafile. The bridge is not enabled until "
    "you remove enabled: false"
)
MORE_AUTHORITIES: Final = "only those of bridge_cafile are taken: add the others to that file"
INSECURE: Final = (
    "Mosquitto does not look at the name in the certificate, but at who has issued it; tls.verify: false would look at "
    "nothing. The name is verified: if it is another one, write it as tls.server_name"
)
NO_CERTIFICATE: Final = "without bridge_certfile it has no meaning"
SYSTEM: Final = ("/etc/ssl/certs", "/etc/pki/tls/certs")
"""Directories of authorities that are those of the machine."""
AS_HERE: Final = "as Sluice does it"
OF_MACHINE: Final = "without cafile, the authorities are those of this machine"

Leave = Callable[[Line, str, bool], None]
"""Says that a line is not taken over, why, and whether that is wrong."""


def closed(bridge: Connection) -> list[tuple[Line, str]]:
    """The lines for which the bridge would trust more than Mosquitto's, and why: then it is not enabled."""
    lines = bridge.lines
    found = [(lines[each], PSK) for each in ("bridge_identity", "bridge_psk") if each in lines]
    if bridge.has_tls and bridge.true("bridge_require_ocsp"):
        found.append((lines["bridge_require_ocsp"], OCSP))
    authorities = lines.get("bridge_capath")
    if authorities is not None and "bridge_cafile" not in lines and not _is_of_machine(authorities):
        found.append((authorities, DIRECTORY))
    return found


def put(tls: Section, bridge: Connection, path_of: Callable[[Line], str], leave: Leave) -> None:
    """Set the keys of `tls`."""
    _put_authorities(tls, bridge, path_of, leave)
    lines = bridge.lines
    certificate, key = lines.get("bridge_certfile"), lines.get("bridge_keyfile")
    if certificate is not None:
        tls.put("certfile", path_of(certificate), certificate)
        if key is not None:
            tls.put("keyfile", path_of(key), key)
    elif key is not None:
        leave(key, NO_CERTIFICATE, False)
    version, alpn, ciphers = (lines.get(f"bridge_{each}") for each in ("tls_version", "alpn", "ciphers"))
    newest = version is not None and values.line(version.value) == "tlsv1.3"
    if version is not None:
        tls.put("minimum_version", "1.3" if newest else "1.2", version)
    if alpn is not None:
        tls.put("alpn", [alpn.value], alpn)
    if ciphers is not None:
        if why := _no_ciphers(ciphers.value, newest):
            leave(ciphers, why, False)
        else:
            tls.put("ciphers", ciphers.value, ciphers)
    if bridge.true("bridge_insecure"):
        leave(lines["bridge_insecure"], INSECURE, True)
    tls.remarks += [
        f"{lines[each]}: {AS_HERE}"
        for each in ("bridge_insecure", "bridge_require_ocsp")
        if each in lines and not bridge.true(each)
    ]


def _put_authorities(tls: Section, bridge: Connection, path_of: Callable[[Line], str], leave: Leave) -> None:
    file, folder = bridge.lines.get("bridge_cafile"), bridge.lines.get("bridge_capath")
    if file is not None:
        tls.put("cafile", path_of(file), file)
    more = [] if folder is None else [folder]
    if bridge.true("bridge_tls_use_os_certs"):
        more.append(bridge.lines["bridge_tls_use_os_certs"])
    for line in more:
        if file is not None:
            leave(line, MORE_AUTHORITIES, True)
        elif line is not folder or _is_of_machine(line):
            tls.remarks.append(f"{line}: {OF_MACHINE}")


def _is_of_machine(folder: Line) -> bool:
    return folder.value.rstrip("/") in SYSTEM


def _no_ciphers(ciphers: str, newest: bool) -> str:
    """Why these cannot be our ciphers; empty if they can."""
    if newest:
        return "they are those of TLS 1.2, which is not accepted"
    try:
        check_ciphers(ciphers)
    except ValueError as error:
        return str(error)
    return ""
