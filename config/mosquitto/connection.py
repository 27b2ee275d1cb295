"""One bridge of Mosquitto, as its lines describe it."""

from dataclasses import dataclass, field

from config.imported.draft import Line
from config.mosquitto import values


@dataclass
class Connection:
    """The lines about one bridge, by option."""

    made_by: Line
    lines: dict[str, Line] = field(default_factory=dict)
    topics: list[Line] = field(default_factory=list)

    def true(self, option: str, default: bool = False) -> bool:
        """What a line says that is true or false."""
        line = self.lines.get(option)
        return default if line is None else values.boolean(line.value)

    def whole(self, option: str, least: int) -> int | None:
        """The number of a line, or the least that Mosquitto takes for it; None = there is no such line."""
        line = self.lines.get(option)
        return None if line is None else max(values.whole()(line.value), least)

    @property
    def has_tls(self) -> bool:
        """Whether Mosquitto uses TLS."""
        given = self.lines.keys() & {"bridge_cafile", "bridge_capath", "bridge_psk", "bridge_identity"}
        return bool(given) or self.true("bridge_tls_use_os_certs")
