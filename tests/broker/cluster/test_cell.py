"""Which cell a process is, and what each has for itself."""

from pathlib import Path

from broker.cluster.cell import client_id_of, configuration_of, number_of
from config.models import Config


def test_a_cell_has_its_number_in_its_client_id() -> None:
    """Others read it back; anything else is no cell."""
    assert number_of(client_id_of(12)) == 12
    assert [number_of(each) for each in ("$cell", "$cell/", "$cell/x", "cell/1", "$cell/-1")] == [0] * 5


def test_each_cell_has_a_name_and_a_journal_of_its_own(tmp_path: Path) -> None:
    """What the report and the log call it, and where it keeps sessions; memory is shared out."""
    config = Config.model_validate(
        {
            "node_name": "n",
            "cluster": {"workers": 4},
            "memory_watermark": 400 * 2**20,
            "persistence": {"directory": tmp_path},
        }
    )
    own = configuration_of(config, 3, 4)
    assert own.node_name == "n.3"
    assert own.persistence.directory == tmp_path / "cell-3"
    assert own.memory_watermark == 100 * 2**20
