"""Who is let in: EMQX's authenticators."""

from pathlib import Path
from typing import Final

from config.emqx import values
from config.emqx.listener import file_of
from config.emqx.reading import Setting
from config.imported.draft import Finding, Section

_BY_KEY: Final = [f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)]

_INSTEAD: Final = {
    "built_in_database": "EMQX's users are in its database: `sluice user add` adds them again",
    "postgresql": "write authentication.postgres; password_hash has to be as `sluice user` writes it",
    "http": "write authentication.http; the service gets the login as JSON of ours",
    "scram": "`sluice user scram NAME` prints an entry of authentication.scram for each user",
    "jwt": "write authentication.jwt: the secret goes into a file, which key_file names",
    "": "there is no such authenticator: write authentication.http, or a plugin",
}


class Access:
    """The settings under `authentication`, put together by authenticator."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, dict[str, Setting]] = {}

    def take(self, setting: Setting) -> None:
        """Take a setting; a single authenticator may have no number."""
        _, *rest = setting.path
        number = rest.pop(0) if rest and rest[0].isdigit() else "1"
        self._found.setdefault(number, {})[".".join(rest)] = setting

    @property
    def asks(self) -> bool:
        """Whether EMQX asks clients who they are."""
        return not all(map(_off, self._found.values()))

    def put(self, root: Section, findings: list[Finding], users: Path) -> bool:
        """Set the keys. Returns whether a file without users is needed: EMQX asks for logins that we cannot check."""
        served = [each for each in self._found.values() if not _off(each)]
        for each in self._found.values():
            if _off(each):
                findings += [Finding(setting, "it is off") for setting in each.values()]
        if not served:
            root.put("allow_anonymous", True, "EMQX without authentication lets everybody in")
            return False
        root.put("allow_anonymous", False, "EMQX with authentication lets nobody else in")
        section = root.section("authentication")
        for each in served:
            if "jwt" in section.keys or not self._put_jwt(each, section, findings):
                why = _INSTEAD.get(_kind(each), _INSTEAD[""])
                findings += [Finding(setting, why, wrong=_decides(setting)) for setting in each.values()]
        if "jwt" in section.keys and len(served) == 1:
            return False
        section.put("password_file", str(users))
        section.remarks.append("without users: `sluice user add` adds them")
        return True

    def _put_jwt(self, found: dict[str, Setting], section: Section, findings: list[Finding]) -> bool:
        """Tokens; returns whether they are taken over. A secret is not: it would be in the new file."""
        endpoint, key = found.get("endpoint"), found.get("public_key")
        if _kind(found) != "jwt" or (endpoint is None and key is None):
            return False
        jwt = section.section("jwt")
        taken = {"mechanism", "endpoint", "public_key", "refresh_interval", "from", "use_jwks", "algorithm", "enable"}
        jwt.put("algorithms", _BY_KEY, *(found[each] for each in ("mechanism", "algorithm", "enable") if each in found))
        if endpoint is not None:
            sources = [found[each] for each in ("use_jwks",) if each in found]
            jwt.put("jwks_url", endpoint.value, endpoint, *sources)
            if (refresh := found.get("refresh_interval")) is not None:
                jwt.put("refresh", f"{max(values.whole(1)(refresh.found), 10)}s", refresh)
        elif key is not None:
            jwt.put("key_file", file_of(self._folder, key.value), key)
            taken -= {"refresh_interval", "use_jwks"}
        if (sent := found.get("from")) is not None:
            jwt.put("sent_as", sent.value, sent)
        taken |= _put_claims(found, jwt)
        findings += [Finding(each, "authentication.jwt") for name, each in found.items() if name not in taken]
        return True


def _put_claims(found: dict[str, Setting], jwt: Section) -> set[str]:
    """What claims have to be; returns the names of the settings that are taken over."""
    taken = set()
    for name, setting in found.items():
        if not name.startswith("verify_claims."):
            continue
        claim = name.removeprefix("verify_claims.")
        if setting.value == "${username}":
            jwt.put("user_claim", claim, setting)
        elif claim in ("iss", "aud") and "${" not in setting.value:
            jwt.put({"iss": "issuer", "aud": "audience"}[claim], setting.value, setting)
        else:
            continue
        taken.add(name)
    return taken


def _off(found: dict[str, Setting]) -> bool:
    return "enable" in found and not values.boolean(found["enable"].found)


def _kind(found: dict[str, Setting]) -> str:
    """Which authenticator it is: by its backend, or by its mechanism."""
    mechanism = found["mechanism"].value if "mechanism" in found else ""
    backend = found["backend"].value if "backend" in found else ""
    return mechanism if mechanism in ("jwt", "scram") else backend


def _decides(setting: Setting) -> bool:
    """Whether it is one that says which authenticator it is: of each, one finding is a mistake."""
    return setting.path[-1] == "mechanism"
