"""Who is let in: EMQX's authenticators."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from config.emqx import values
from config.emqx.listener import file_of
from config.emqx.reading import PART_OF_A_LIST, Setting
from config.imported.draft import Finding, Section

_BY_KEY: Final = [f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)]

_INSTEAD: Final = {
    "built_in_database": "EMQX's users are in its database: `sluice user add` adds them again",
    "postgresql": "write authentication.postgres, for hashes as `sluice user` or mosquitto_passwd makes them",
    "http": "write authentication.http, whose service answers 200 to let in, 401 to refuse and 204 for users whom it "
    "does not know; MIGRATION.md says what it gets",
    "scram": "`sluice user scram NAME` prints an entry of authentication.scram for each user",
    "jwt": "write authentication.jwt: the secret goes into a file, which key_file names",
    "": "there is no such authenticator: write authentication.http, or a plugin",
}


_JWT: Final = ("mechanism", "enable", "algorithm", "use_jwks", "endpoint", "public_key", "refresh_interval", "from")
_JWT_LEFT: Final = (
    *("verify_claims", "acl_claim_name", "ssl", "pool_size", "headers", "secret", "secret_base64_encoded"),
    *("disconnect_after_expire", "on_missing_jwt"),
)
"""Settings of tokens without which none is accepted that EMQX would refuse."""
_BEHIND: Final = "it comes behind an authenticator that is not taken over, and may refuse whom this one accepts"
_PART: Final = "part of what is not taken over"
_HARDENED: Final = "the security profile hardened, without authentication"
_PLACES: Final = {"${username}": "{username}", "${clientid}": "{client_id}"}
_RULES: Final = "tokens with the claim {claim}, which has rules, are refused: write authorization.rules"

Algorithms = Callable[[Path], list[str]]
"""The algorithms of tokens that the public key in a file verifies. Raises OSError, ValueError."""


class Access:
    """The settings under `authentication`, put together by authenticator."""

    def __init__(self, folder: Path, algorithms: Algorithms) -> None:
        self._folder = folder
        self._algorithms = algorithms
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

    def put(self, root: Section, findings: list[Finding], users: Path, hardened: bool) -> bool:
        """Set the keys. Returns whether a file without users is needed: EMQX asks for logins that we cannot check.

        `hardened`: with this security profile EMQX lets nobody in without authentication.
        """
        chain = [found for _, found in sorted(self._found.items(), key=lambda each: int(each[0]))]
        served = [each for each in chain if not _off(each)]
        for each in chain:
            if "" in each:
                raise ValueError(f"{each['']}: write a list of authenticators, or [] for none")
            if not each.keys() & {"mechanism", "backend"} or "1" not in self._found:
                raise ValueError(f"{next(iter(each.values()))}: {PART_OF_A_LIST}")
            if _off(each):
                findings += [Finding(setting, "it is off") for setting in each.values()]
        section = root.section("authentication")
        if not served and hardened:
            root.put("allow_anonymous", False, _HARDENED)
            section.put("password_file", str(users), _HARDENED)
            return True
        if not served:
            root.put("allow_anonymous", True, "EMQX without authentication lets everybody in")
            return False
        root.put("allow_anonymous", False, "EMQX with authentication lets nobody else in")
        refuses = False
        for each in served:
            kind = _kind(each)
            if refuses and kind == "jwt":
                findings += _left(each, _BEHIND)
            elif "jwt" in section.keys or not self._put_jwt(each, section, findings):
                findings += _left(each, _INSTEAD.get(kind, _INSTEAD[""]))
            # SCRAM is asked only about its own method; what comes behind a token decides about others.
            refuses = refuses or (kind != "scram" and "jwt" not in section.keys)
        if "jwt" in section.keys and len(served) == 1:
            return False
        section.put("password_file", str(users))
        section.remarks.append("without users: `sluice user add` adds them")
        return True

    def _put_jwt(self, found: dict[str, Setting], section: Section, findings: list[Finding]) -> bool:
        """Tokens; returns whether all is said. A secret is not taken over: it would be in the new file."""
        if _kind(found) != "jwt":
            return False
        try:
            jwt = self._jwt(found)
        except _NotTakenError as error:
            findings.append(Finding(error.setting, str(error), wrong=True))
            findings += [Finding(each, _PART) for each in found.values() if each is not error.setting]
            return True
        if jwt is None:
            return False
        section.keys["jwt"] = jwt
        acl = found.get("acl_claim_name", found["mechanism"])
        findings.append(Finding(acl, _RULES.format(claim=_acl_claim(found)), wrong=True))
        taken = {*_JWT, "acl_claim_name", *(name for name in found if name.startswith("verify_claims"))}
        findings += [Finding(each, "authentication.jwt") for name, each in found.items() if name not in taken]
        return True

    def _jwt(self, found: dict[str, Setting]) -> Section | None:
        """The section for tokens; None if a secret verifies them. Raises _NotTakenError."""
        for name, setting in found.items():
            if name.partition(".")[0] not in (*_JWT, *_JWT_LEFT):
                raise _NotTakenError(setting, "it may decide which tokens are accepted, and has no counterpart")
        jwt = Section()
        said = [found[each] for each in ("mechanism", "algorithm", "use_jwks", "enable") if each in found]
        endpoint, key = found.get("endpoint"), found.get("public_key")
        by_key = "use_jwks" in found and not values.boolean(found["use_jwks"].found)
        if endpoint is not None and not by_key:
            jwt.put("algorithms", _BY_KEY, *said)
            jwt.put("jwks_url", endpoint.value, endpoint)
            if (refresh := found.get("refresh_interval")) is not None:
                jwt.put("refresh", f"{max(values.whole(1)(refresh.found), 10)}s", refresh)
            if (authorities := found.get("ssl.cacertfile")) is not None:
                jwt.put("jwks_cafile", file_of(self._folder, authorities.value), authorities)
        elif key is not None and ("algorithm" not in found or found["algorithm"].value == "public-key"):
            file = Path(file_of(self._folder, key.value))
            try:
                if "-----BEGIN" in key.value:
                    raise ValueError("write the key to a file, and name that")
                jwt.put("algorithms", self._algorithms(file), *said)
            except (OSError, ValueError) as error:
                why = f"{file}: {error.strerror}" if isinstance(error, OSError) else str(error)
                raise _NotTakenError(key, why) from error
            jwt.put("key_file", str(file), key)
        else:
            return None
        if (sent := found.get("from")) is not None:
            jwt.put("sent_as", sent.value, sent)
        _put_claims(found, jwt)
        return jwt


class _NotTakenError(Exception):
    """Why an authenticator is not taken over, and the setting that says it."""

    def __init__(self, setting: Setting, why: str) -> None:
        super().__init__(f"{why}: tokens are not accepted")
        self.setting = setting


def _acl_claim(found: dict[str, Setting]) -> str:
    return found["acl_claim_name"].value if "acl_claim_name" in found else "acl"


def _put_claims(found: dict[str, Setting], jwt: Section) -> None:
    """What claims have to be. Raises _NotTakenError."""
    claims: dict[str, str | None] = {}
    sources = []
    for claim, setting in _verified(found):
        value = _PLACES.get(setting.value, setting.value)
        if claim in claims or (value == setting.value and "{" in value) or not value:
            raise _NotTakenError(setting, "the value of a claim is a text, ${username} or ${clientid}, once")
        if value == "{username}" and jwt.get("sent_as") == "username":
            raise _NotTakenError(setting, "with from = username it is the token, which no claim has")
        sources.append(setting)
        claims[claim] = value
        if value == "{username}":
            jwt.put("user_claim", claim, setting)
        elif claim in ("iss", "aud"):
            jwt.put({"iss": "issuer", "aud": "audience"}[claim], value, setting)
    if claim := _acl_claim(found):
        if claim in claims:
            raise _NotTakenError(sources[0], f"the claim {claim} is one of rules, and cannot be compared")
        claims[claim] = None
    if "user_claim" not in jwt.keys:
        jwt.remarks.append("the claim sub is the user name; EMQX believes that of CONNECT")
    jwt.put("claims", claims, *sources, *(found[each] for each in ("acl_claim_name",) if each in found))


def _verified(found: dict[str, Setting]) -> Iterator[tuple[str, Setting]]:
    """Claims with the settings that have their values, of either form: names with values, or a list of both."""
    for name, setting in found.items():
        _, _, rest = name.partition("verify_claims.")
        number, _, part = rest.partition(".")
        listed = f"verify_claims.{number}.name"
        if number.isdigit() and part in ("name", "value") and listed in found:
            if part == "value":
                yield found[listed].value, setting
            elif f"verify_claims.{number}.value" not in found:
                raise _NotTakenError(setting, "the claim has no value")
        elif rest:
            yield rest, setting
        elif name == "verify_claims" and setting.found not in ([], {}, None):
            raise _NotTakenError(setting, "it is no list of claims")


def _off(found: dict[str, Setting]) -> bool:
    return "enable" in found and not values.boolean(found["enable"].found)


def _kind(found: dict[str, Setting]) -> str:
    """Which authenticator it is: by its backend, or by its mechanism."""
    mechanism = found["mechanism"].value if "mechanism" in found else ""
    backend = found["backend"].value if "backend" in found else ""
    return mechanism if mechanism in ("jwt", "scram") else backend


def _left(found: dict[str, Setting], why: str) -> Iterator[Finding]:
    """What is said about an authenticator that is not taken over: the reason once."""
    first = found.get("mechanism", next(iter(found.values())))
    yield Finding(first, why, wrong=True)
    yield from (Finding(each, _PART) for each in found.values() if each is not first)
