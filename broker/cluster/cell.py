"""Which cell this process is, and where the others are."""

from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from broker.cluster.slots import home_of
from config.bridge import Bridge
from config.cluster import CELL
from config.memory import watermark
from config.models import Config

JOURNAL: Final = "cell-"
"""With its number, the name of the directory of a cell's journal."""


class Cell(NamedTuple):
    """One process of several that serve the clients of one broker."""

    number: int
    """From 1 on."""
    cells: int
    """How many cells there are."""
    directory: Path
    """The directory of their Unix sockets, which only this user may enter."""

    @property
    def others(self) -> list[int]:
        """The numbers of the other cells."""
        return [number for number in range(1, self.cells + 1) if number != self.number]

    @property
    def broker_id(self) -> str:
        """The id of the broker that all cells are (broker/routing/via.py): the same while the keeper runs."""
        return f"{crc32(str(self.directory).encode()) | 1:08x}"

    def is_home(self, client_id: str) -> bool:
        """Whether this cell serves a client."""
        return home_of(client_id, self.cells) == self.number

    def admin_at(self, number: int) -> Path:
        """Where a cell answers the keeper (broker/admin)."""
        return self.directory / f"{number}.admin"

    def links_at(self, number: int) -> Path:
        """Where a cell accepts links."""
        return self.directory / f"{number}.links"

    def sockets_at(self, number: int) -> Path:
        """Where a cell takes over sockets of its clients."""
        return self.directory / f"{number}.sockets"

    def relays_at(self, number: int) -> Path:
        """Where a cell accepts connections of its clients that another cell relays."""
        return self.directory / f"{number}.relays"


def client_id_of(number: int) -> str:
    """The client id of a cell at the others."""
    return f"{CELL}/{number}"


def number_of(client_id: str) -> int:
    """The number of the cell with this client id; 0 = it is none."""
    place, _, number = client_id.partition("/")
    return int(number) if place == CELL and number.isascii() and number.isdigit() else 0


def configuration_of(config: Config, number: int, cells: int) -> Config:
    """The configuration of one of so many cells: its name and its journal have its number, memory is shared out, and
    it has the bridges whose home it is.
    """
    own = config.persistence
    directory = None if own.directory is None else journal_of(own.directory, number)
    return config.model_copy(
        update={
            "node_name": f"{config.node_name}.{number}",
            "cluster": config.cluster.model_copy(update={"workers": cells}),  # `auto` may be another number by now
            "memory_watermark": watermark(config).bytes // cells,
            "persistence": own.model_copy(update={"directory": directory}),
            "bridges": [_named(each, config) for each in config.bridges if home_of(each.local_id, cells) == number],
        }
    )


def _named(bridge: Bridge, config: Config) -> Bridge:
    """The bridge, whose client id at the remote broker does not depend on its cell."""
    return bridge.model_copy(update={"client_id": bridge.client_id or f"{config.node_name}-{bridge.name}"})


def journal_of(directory: Path, number: int) -> Path:
    """The directory of one cell's journal."""
    return directory / f"{JOURNAL}{number}"
