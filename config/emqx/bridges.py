"""MQTT bridges of EMQX: connectors with actions, sources and rules, and `bridges` as until 5.4."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from config.bridge import Bridge, BridgeTopic
from config.emqx import bridge_topics, values
from config.emqx.bridge_topics import DEFAULT, Item, Target, text
from config.emqx.listener import file_of
from config.emqx.reading import Setting
from config.imported.bridges import allow, free_name, password_path, refusal
from config.imported.draft import Section, Value

OFF: Final = "it is off"
NO_TOPICS: Final = "no topic goes over it that is taken over"
NO_RULE: Final = "no rule that is taken over leads to it"
NO_PASSWORD: Final = "the password is hidden in this file: write it into a file, and name that as password_file"  # noqa: S105
NAME_UNVERIFIED: Final = (
    "EMQX does not look at the name in the certificate; here it is verified: write it as tls.server_name"
)
NOT_TAKEN: Final = "no topic of a bridge is made of it"
BY_RULES: Final = "as what decides about access is not taken over, write a rule that allows bridges their topics"
_MQTT: Final = "mqtt"
_KINDS: Final = ("connectors", "actions", "sources", "bridges")
_VERSIONS: Final = {"v3": "3.1.1", "v4": "3.1.1", "v5": "5"}
_OF_FILE: Final = "file://"
_PORT: Final = re.compile(r":[0-9]+$", re.ASCII)
_LEFT: Final = {
    "retry_interval": "session.retry_interval says when a delivery is sent again",
    "pool_size": "a bridge is one connection",
    "resource_opts": "what waits for the other broker is in the mqueue of the bridge (session)",
    "static_clientids": "a bridge is one connection: write client_id",
    "bridge_mode": "a bridge by MQTT 3.1.1 always says that it is one",
    "connect_timeout": "it cannot be set",
    "reconnect_interval": "reconnect_min and reconnect_max say when a bridge connects again",
    "ssl": "Sluice leaves this to OpenSSL",
    "description": "it is for people",
    "tags": "it is for people",
    "mode": "Sluice is one node",
    "metadata": "it is for people",
    "created_at": "it is for people",
    "last_modified_at": "it is for people",
    "enable": bridge_topics.AS_IT_IS,
    "connector": NOT_TAKEN,
    "parameters": NOT_TAKEN,
    "egress": NOT_TAKEN,
    "ingress": NOT_TAKEN,
    "sql": NOT_TAKEN,
    "actions": NOT_TAKEN,
}
_LONGEST: Final = 65_535
_ANY: Final = "Sluice has no such setting of a bridge"

Leave = Callable[[Setting, str, bool], None]


class Bridges:
    """Collects settings about MQTT bridges, and takes them over."""

    def __init__(self, folder: Path, beside: Path, leave: Leave) -> None:
        """`folder`: where emqx.conf is; `beside`: a file beside which those of passwords would be."""
        self._folder = folder
        self._beside = beside
        self._leave = leave
        self._items: dict[tuple[str, str], Item] = {}
        self._rules: dict[str, Item] = {}
        self._out: dict[str, list[tuple[str, list[Setting]]]] = {}
        """What rules send to an action, or to a bridge: filters, and the settings that say so."""
        self._in: dict[str, list[Target]] = {}
        """What rules publish of a source, or of a bridge."""
        self._left: set[str] = set()
        """Names of settings of which it is said why they are not taken over."""
        self.passwords: dict[Path, str] = {}
        """Files that have to be made, with what is in them."""

    def take(self, setting: Setting) -> bool:
        """Whether a setting is about such bridges, or may be; then it is kept for `put`."""
        kind, *names = setting.path
        if kind in _KINDS and len(names) > 2 and names[0] == _MQTT:
            self._items.setdefault((kind, names[1]), {})[".".join(names[2:])] = setting
        elif kind == "rule_engine" and len(names) > 2 and names[0] == "rules":
            self._rules.setdefault(names[1], {})[".".join(names[2:])] = setting
        else:
            return False
        return True

    def others(self) -> Iterator[Setting]:
        """Read the rules; returns the settings of those that are not about bridges."""
        for name, rule in list(self._rules.items()):
            if not self._read(rule):
                yield from self._rules.pop(name).values()

    def put(self, root: Section, *, allowed: bool) -> None:
        """Set the key `bridges`, after `others`. `allowed`: whether bridges may do what no rule of EMQX was about."""
        sections, taken = [], set[str]()
        for (kind, name), item in self._items.items():
            if kind in ("connectors", "bridges"):
                topics = list(self._of_connector(name) if kind == "connectors" else self._of_bridge(name, item))
                section = self._section(name, item, topics, taken)
                sections += [] if section is None else [section]
        said = "\n".join(each for section in sections for each in _said(section))
        for item in (*self._items.values(), *self._rules.values()):
            for name, setting in item.items():
                if f"{setting}" not in said:
                    self._leave_once(setting, _LEFT.get(name.split(".")[0], _ANY))
        if sections:
            root.keys["bridges"] = sections
            if allowed:
                allow(root.section("authorization"), sections)
            else:
                root.section("authorization").remarks.append(BY_RULES)

    # -- rules

    def _read(self, rule: Item) -> bool:
        """Read a rule; returns whether it does something with messages of bridges, or for them."""
        sql, named = rule.get("sql"), list(_named(rule))
        selected = bridge_topics.filters(sql.value) if sql is not None else []
        to = [name.removeprefix(f"{_MQTT}:") for _, names in named for name in names if name.startswith(f"{_MQTT}:")]
        if sql is None or not (to or "/mqtt:" in sql.value):
            return False
        if _off(rule) or not selected:
            self._give_up(rule, "", OFF if _off(rule) else bridge_topics.SQL)
            return True
        sources = [sql, *(setting for setting, _ in named)]
        for each in selected:
            source = _source(each)
            for name in [] if source else to:
                self._out.setdefault(name, []).append((each, sources))
            if source:
                self._in.setdefault(source, []).extend(_republished(rule, sources))
        return True

    def _of_connector(self, name: str) -> Iterator[Section]:
        """The topics of the actions and sources that use a connector."""
        for (kind, of), item in self._items.items():
            connector = item.get("connector")
            if kind not in ("actions", "sources") or connector is None or connector.value != name:
                continue
            if _off(item):
                self._give_up(item, "", OFF)
            elif kind == "actions":
                target = Target(item, "parameters.", "1", "false", "", [connector])
                yield from self._sent(target, self._out.get(of, []))
            else:
                own = Target(item, "parameters.local.", "${qos}", "${retain}", "", [connector])
                yield from self._received(of, item, "parameters.", own)

    def _of_bridge(self, name: str, item: Item) -> Iterator[Section]:
        """The topics of a bridge as until 5.4."""
        below = {each.partition(".")[0] for each in item}
        if "egress" in below:
            local = item.get("egress.local.topic")
            given = self._out.get(name, []) if local is None else [(local.value, [local])]
            yield from self._sent(Target(item, "egress.remote.", "1", "false", ""), given)
        if "ingress" in below:
            own = Target(item, "ingress.local.", "${qos}", "${retain}", "")
            yield from self._received(name, item, "ingress.remote.", own)

    def _sent(self, target: Target, given: list[tuple[str, list[Setting]]]) -> Iterator[Section]:
        """What goes out."""
        about = target.setting("topic")
        if about is None:
            return
        if not given:
            self._give_up(target.item, target.below, NO_RULE)
        for topic_filter, sources in given:
            yield from self._checked(bridge_topics.topic("out", topic_filter, target, 2, *sources), target, about)

    def _received(self, name: str, item: Item, below: str, own: Target) -> Iterator[Section]:
        """What comes in: published as it says itself, or as rules do."""
        remote, qos = item.get(f"{below}topic"), item.get(f"{below}qos")
        targets = [*([own] if own.text("topic") else []), *self._in.get(name, [])]
        if remote is None:
            return
        if not targets:
            self._leave_once(remote, NO_RULE)
        most = int(qos.value) if qos is not None and qos.value in ("0", "1", "2") else 1
        for target in targets:
            sources = [remote, *([] if qos is None else [qos]), *own.sources]
            found = bridge_topics.topic("in", remote.value, target, most, *sources)
            yield from self._checked(found, target, remote)

    def _checked(self, found: Section | str, target: Target, about: Setting) -> Iterator[Section]:
        why = found if isinstance(found, str) else refusal(BridgeTopic, found)
        if isinstance(found, str) or why:
            self._give_up(target.item, target.below, why)
            self._leave_once(about, why)
        else:
            yield found

    def _give_up(self, item: Item, below: str, why: str, wrong: bool = False) -> None:
        """Leave all settings of an item that are below a name."""
        for name, setting in item.items():
            if name.startswith(below):
                self._leave_once(setting, why, wrong)

    def _leave_once(self, setting: Setting, why: str, wrong: bool = False) -> None:
        if setting.name not in self._left:
            self._left.add(setting.name)
            self._leave(setting, why, wrong)

    # -- the connection

    def _section(self, name: str, item: Item, topics: list[Section], taken: set[str]) -> Section | None:
        first = next(iter(item.values()))
        if not topics:
            self._give_up(item, "", NO_TOPICS)
            return None
        section, why = Section(), ""
        section.put("name", free_name(name, taken), item.get("server", first))
        try:
            self._put_connection(section, name, item)
            section.keys["topics"] = topics
            why = refusal(Bridge, section)
        except ValueError as error:
            why = str(error)
        if why:
            self._give_up(item, "", f"the bridge is left out: {why}", wrong=True)
            return None
        return section

    def _put_connection(self, section: Section, name: str, item: Item) -> None:
        """Set all keys but `name` and `topics`. Raises ValueError."""
        if _off(item):
            section.put("enabled", False, item["enable"])
        server, encrypted = item.get("server"), item.get("ssl.enable")
        tls = encrypted is not None and encrypted.value == "true"
        addresses = [] if server is None else [_address(each, tls) for each in server.value.split(",") if each.strip()]
        section.put("address", addresses[0] if len(addresses) == 1 else addresses, *filter(None, (server, encrypted)))
        version, prefix = item.get("proto_ver"), item.get("clientid_prefix")
        section.put("proto_ver", _VERSIONS.get(version.value, "3.1.1") if version else "3.1.1", version or DEFAULT)
        if prefix is not None:
            section.put("client_id", f"{prefix.value}-{name}", prefix)
        self._put_user(section, item)
        keepalive, clean, inflight = item.get("keepalive"), item.get("clean_start"), item.get("max_inflight")
        length = 300.0 if keepalive is None else values.seconds(keepalive.found)
        section.put("keepalive", f"{min(max(int(length or _LONGEST), 1), _LONGEST)}s", keepalive or DEFAULT)
        kept = clean is not None and clean.value == "false"
        section.put("clean_start", not kept, clean or DEFAULT)
        if kept and section.get("proto_ver") == "5":
            section.put("session_expiry_interval", "0s", DEFAULT)
        if inflight is not None:
            section.section("session").put("max_inflight", values.count(1, _LONGEST)(inflight.found), inflight)
        if tls:
            self._put_tls(section.section("tls"), item)

    def _put_user(self, section: Section, item: Item) -> None:
        user, password = _given(item, "username"), _given(item, "password")
        if user is not None:
            section.put("username", user.value, user)
        if password is None:
            return
        if password.value.startswith(_OF_FILE):
            section.put("password_file", file_of(self._folder, password.value.removeprefix(_OF_FILE)), password)
        elif set(password.value) == {"*"}:
            self._leave_once(password, NO_PASSWORD, wrong=True)
        else:
            path = password_path(self._beside, str(section.get("name")))
            section.put("password_file", str(path), password)
            self.passwords[path] = password.value + "\n"

    def _put_tls(self, tls: Section, item: Item) -> None:
        verify, versions = item.get("ssl.verify"), _given(item, "ssl.versions")
        name = _given(item, "ssl.server_name_indication")
        verified = verify is not None and verify.value == "verify_peer"
        for key, ours in (("cacertfile", "cafile"), ("certfile", "certfile"), ("keyfile", "keyfile")):
            file = _given(item, f"ssl.{key}")
            if file is not None:
                tls.put(ours, file_of(self._folder, file.value), file)
        tls.put("verify", verified, verify or DEFAULT)
        if name is not None and name.value != "disable":
            tls.put("server_name", name.value, name)
        elif name is not None:
            self._leave_once(name, NAME_UNVERIFIED, wrong=verified)
        if versions is not None:
            newest = "tlsv1.3" in versions.value and "tlsv1.2" not in versions.value
            tls.put("minimum_version", "1.3" if newest else "1.2", versions)


def _address(server: str, tls: bool) -> str:
    place = server.strip()
    return f"{'mqtts' if tls else 'mqtt'}://{place}{'' if _PORT.search(place) else ':1883'}"


def _given(item: Item, name: str) -> Setting | None:
    """A setting that is not empty."""
    return item[name] if text(item, name) else None


def _off(item: Item) -> bool:
    """Whether it says that it is."""
    return text(item, "enable") == "false"


def _said(section: Section) -> Iterator[str]:
    """Where the keys of a section come from, and its remarks."""
    yield from section.remarks
    for found in section.keys.values():
        if isinstance(found, Value):
            yield found.source
        else:
            for each in found if isinstance(found, list) else [found]:
                yield from _said(each)


def _named(rule: Item) -> Iterator[tuple[Setting, list[str]]]:
    """The settings of a rule that name actions, with the names."""
    for key, setting in rule.items():
        if key == "actions":
            yield setting, [str(each) for each in setting.found] if isinstance(setting.found, list) else []
        elif _is_name(key):
            yield setting, [setting.value]


def _is_name(key: str) -> bool:
    """Whether a setting of a rule names actions."""
    first, _, rest = key.partition(".")
    return first == "actions" and (not rest or rest.isdigit())


def _source(selected: str) -> str | None:
    """The source, or bridge, whose messages a rule selects; None = those of clients."""
    found = [selected.removeprefix(each) for each in ("$bridges/mqtt:", "$sources/mqtt:") if selected.startswith(each)]
    return found[0] if found else None


def _republished(rule: Item, sources: list[Setting]) -> Iterator[Target]:
    """What a rule publishes."""
    for name, setting in list(rule.items()):
        if name.endswith(".function") and setting.value == "republish":
            below = f"{name.removesuffix('function')}args."
            yield Target(rule, below, "${qos}", "${retain}", "${payload}", [*sources, setting])
