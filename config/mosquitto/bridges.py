"""The bridges of Mosquitto (`connection`), and the bridges that they become."""

import platform
from pathlib import Path
from typing import Final

from config.bridge import Bridge, BridgeTopic
from config.imported.bridges import allow, free_name, password_path, refusal
from config.imported.draft import Finding, Line, Section
from config.mosquitto import bridge_options, bridge_tls, values
from config.mosquitto.bridge_tls import Leave
from config.mosquitto.connection import Connection
from config.mosquitto.paths import Paths

DEFAULT: Final = "Mosquitto's default"
NO_TLS: Final = "without bridge_cafile or bridge_capath Mosquitto uses no TLS, and neither does this bridge"
LAZY_IN: Final = "lazy is for bridges of which all topics go out: this one is always connected"
LAZY_CLEAN: Final = "with start: lazy what waits is kept (clean_start: false)"
ONE_CLEAN: Final = "clean_start is for both sides: both keep their sessions"
MQTT31: Final = "bridges have MQTT 5 and 3.1.1"
NO_USER: Final = "MQTT 3.1.1 sends no password without remote_username"
LEFT_OUT: Final = "the bridge is left out: "
BACK: Final = "Mosquitto goes back to the first address as soon as it can; Sluice tries it first after an outage"
HERE_TOO: Final = "Mosquitto publishes that on this side too; Sluice on the other side alone"
_TLS: Final = {
    *("bridge_certfile", "bridge_keyfile", "bridge_insecure", "bridge_tls_version", "bridge_alpn", "bridge_ciphers"),
    *("bridge_require_ocsp", "bridge_tls_use_os_certs"),
}
_VERSIONS: Final = {"mqttv31": "3.1.1", "mqttv311": "3.1.1", "mqttv50": "5"}


class Bridges:
    """Takes over what lines say about bridges."""

    def __init__(self, paths: Paths, leave: Leave, passwords: Path) -> None:
        """`passwords`: a file beside which those of passwords would be."""
        self._paths = paths
        self._leave = leave
        self._beside = passwords
        self._made: list[Connection] = []
        self._latest: dict[Path, Connection] = {}
        self.passwords: dict[Path, str] = {}
        """Files that have to be made, with what is in them."""

    def take(self, line: Line) -> None:
        """Take a line. Raises ValueError if Mosquitto does not take it."""
        if line.name == "connection":
            name = values.word(line.value)
            if any(values.word(each.made_by.value) == name for each in self._made):
                raise ValueError(f"there is a connection {name!r:.50} already: give each its own name")
            self._made.append(Connection(line))
            self._latest[line.file] = self._made[-1]
            return
        current = self._latest.get(line.file)
        if current is None:
            raise ValueError("it needs a line `connection NAME` above it")
        name = bridge_options.OTHER_NAMES.get(line.name, line.name)
        if name not in bridge_options.CHECKED:
            raise ValueError("Mosquitto has no such option of bridges")
        bridge_options.CHECKED[name](line.value)
        if name == "topic":
            current.topics.append(line)
            return
        if (before := current.lines.get(name)) is not None:
            if name in bridge_options.ONCE:
                raise ValueError(f"Mosquitto takes it once for a bridge: it is in line {before.number} too")
            self._leave(before, "a later line replaces it", False)
        current.lines[name] = line

    def refused(self) -> list[Finding]:
        """Bridges with which Mosquitto does not start."""
        found = []
        for each in self._made:
            if "address" not in each.lines:
                found.append(Finding(each.made_by, "it needs a line `address HOST:PORT` below it", wrong=True))
            if not each.topics:
                found.append(Finding(each.made_by, "it needs a line `topic PATTERN` below it", wrong=True))
        return found

    def put(self, root: Section) -> None:
        """Set the key `bridges`, and the rules that they need."""
        taken: set[str] = set()
        sections = [section for each in self._made if (section := self._section(each, taken)) is not None]
        if sections:
            root.keys["bridges"] = sections
            allow(root.section("authorization"), sections)

    def _section(self, bridge: Connection, taken: set[str]) -> Section | None:
        """The bridge as we write it; None if it cannot be one of ours."""
        given, lines = values.word(bridge.made_by.value), bridge.lines
        section = Section()
        section.put("name", free_name(given, taken), bridge.made_by)
        closed = bridge_tls.closed(bridge)
        for line, why in closed:
            self._leave(line, why, True)
        if closed:
            section.put("enabled", False, *(line for line, _ in closed))
        self._put_address(section, bridge)
        version = lines.get("bridge_protocol_version")
        section.put("proto_ver", _VERSIONS[values.line(version.value)] if version else "3.1.1", version or DEFAULT)
        if version is not None and values.line(version.value) == "mqttv31":
            section.remarks.append(f"{version}: {MQTT31}")
        client_id = lines.get("remote_clientid")
        identity = client_id.value if client_id else f"{platform.node()}.{given}"
        section.put("client_id", identity, client_id or f"{DEFAULT}, with the name of this machine")
        self._put_user(section, bridge)
        topics = [topic for each in bridge.topics if (topic := self._topic(each)) is not None]
        self._put_times(section, bridge)
        self._put_start(section, bridge, topics)
        section.keys["topics"] = topics
        self._put_state(section, bridge, identity)
        if bridge.has_tls:
            bridge_tls.put(section.section("tls"), bridge, self._paths.of, self._leave)
        self._tell(section, bridge)
        if why := refusal(Bridge, section):
            self._leave(bridge.made_by, LEFT_OUT + why, True)
            for line in (*lines.values(), *bridge.topics):
                self._leave(line, "it is about a bridge that is left out", False)
            return None
        if (password := lines.get("remote_password")) is not None and "password_file" in section.keys:
            self.passwords[Path(str(section.get("password_file")))] = password.value + "\n"
        return section

    def _put_address(self, section: Section, bridge: Connection) -> None:
        line, scheme = bridge.lines["address"], "mqtts" if bridge.has_tls else "mqtt"
        addresses = []
        for word in line.value.split():
            if word.startswith("#"):
                break
            host, colon, port = word.rpartition(":")
            host, port = (host, port) if colon else (word, "1883")
            host = host.strip("[]")
            addresses.append(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        section.put("address", addresses[0] if len(addresses) == 1 else addresses, line)
        order = bridge.lines.get("round_robin")
        if bridge.true("round_robin"):
            section.put("address_order", "round_robin", order)
        elif len(addresses) > 1:
            section.remarks.append(f"{order or line}: {BACK}")
        elif order is not None:
            section.remarks.append(f"{order}: there is one address")

    def _put_user(self, section: Section, bridge: Connection) -> None:
        name, password = bridge.lines.get("remote_username"), bridge.lines.get("remote_password")
        if name is not None:
            section.put("username", name.value, name)
        if password is not None and name is None and section.get("proto_ver") != "5":
            self._leave(password, NO_USER, False)
        elif password is not None:
            section.put("password_file", str(password_path(self._beside, str(section.get("name")))), password)
        local = bridge.lines.get("local_username")
        if local is not None:
            section.put("user", local.value, local)

    def _put_times(self, section: Section, bridge: Connection) -> None:
        keepalive, restart = bridge.lines.get("keepalive_interval"), bridge.lines.get("restart_timeout")
        if keepalive is not None:
            section.put("keepalive", f"{bridge.whole('keepalive_interval', 5)}s", keepalive)
        times = bridge_options.restart(restart.value if restart else "5 30")
        section.put("reconnect_min", f"{times.least}s", restart or DEFAULT)
        section.put("reconnect_max", f"{times.most}s", restart or DEFAULT)
        expiry = bridge.lines.get("bridge_session_expiry_interval")
        if section.get("proto_ver") == "5":
            seconds = bridge.whole("bridge_session_expiry_interval", 0) or 0
            section.put("session_expiry_interval", f"{seconds}s", expiry or DEFAULT)
        elif expiry is not None:
            self._leave(expiry, "only MQTT 5 has it", False)

    def _put_start(self, section: Section, bridge: Connection, topics: list[Section]) -> None:
        """When it connects, and whether sessions are kept."""
        lines = bridge.lines
        start, clean, local = lines.get("start_type"), lines.get("cleansession"), lines.get("local_cleansession")
        kind = values.word(start.value) if start else "automatic"
        lazy = kind == "lazy" and all(topic.get("direction") == "out" for topic in topics)
        if start is not None and kind == "lazy" and not lazy:
            self._leave(start, LAZY_IN, False)
        elif start is not None:
            section.put("start", kind, start)
        for option, key, unit in (("threshold", "lazy_threshold", ""), ("idle_timeout", "lazy_idle", "s")):
            number = bridge.whole(option, 1)
            if number is not None:
                section.put(key, f"{number}{unit}" if unit else number, lines[option])
        if lazy:
            section.section("session").put("mqueue_store_qos0", True, f"{DEFAULT} with start_type lazy")
        both = bridge.true("cleansession") and bridge.true("local_cleansession", True)
        if both and lazy and clean is not None:
            self._leave(clean, LAZY_CLEAN, False)
        sources = [line for line in (clean, local) if line is not None]
        if sources:
            section.put("clean_start", both and not lazy, *sources)
        if local is not None and bridge.true("cleansession") != bridge.true("local_cleansession"):
            self._leave(local, ONE_CLEAN, False)

    def _topic(self, line: Line) -> Section | None:
        found = bridge_options.topic(line.value)
        section = Section()
        if found.filter:
            section.put("filter", found.filter, line)
        section.put("direction", found.direction, *([] if found.filter else [line]))
        section.put("qos", found.qos)
        if found.local_prefix:
            section.put("local_prefix", found.local_prefix)
        if found.remote_prefix:
            section.put("remote_prefix", found.remote_prefix)
        if why := refusal(BridgeTopic, section):
            self._leave(line, why, True)
            return None
        return section

    def _put_state(self, section: Section, bridge: Connection, client_id: str) -> None:
        lines = bridge.lines
        about = [lines[each] for each in ("notifications", "notifications_local_only") if each in lines]
        topic = lines.get("notification_topic")
        if not bridge.true("notifications", True) or bridge.true("notifications_local_only"):
            section.remarks += [f"{line}: without state_topic" for line in (*about, topic) if line is not None]
            return
        name = topic.value if topic else f"$SYS/broker/connection/{client_id}/state"
        section.put("state_topic", name, *about, topic or DEFAULT)
        section.remarks.append(f"state_topic: {HERE_TOO}")

    def _tell(self, section: Section, bridge: Connection) -> None:
        """What is not taken over, or has no meaning."""
        lines = bridge.lines
        for name, line in lines.items():
            if name in bridge_options.LEFT:
                self._leave(line, bridge_options.LEFT[name], False)
            elif name in _TLS and not bridge.has_tls:
                self._leave(line, NO_TLS, False)
        if (retain := lines.get("bridge_outgoing_retain")) is not None:
            section.put("outgoing_retain", bridge.true("bridge_outgoing_retain"), retain)
        if (private := lines.get("try_private")) is not None:
            section.put("try_private", bridge.true("try_private"), private)
