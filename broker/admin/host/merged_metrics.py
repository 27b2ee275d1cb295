"""/metrics of a host: the series of all cells, each with the label `cell`, and what the keeper knows."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from broker.admin.host.all_cells import CellAnswers
from broker.admin.host.managed_host import ManagedHost
from broker.admin.process_metrics import certificates
from broker.admin.prometheus import EOF, Scrape, admin_refused
from broker.totals import Totals

_COMMENT: Final = b"# "
_SEPARATORS: Final = b"{ "


def merged_metrics(host: ManagedHost, totals: Totals, answers: CellAnswers, accept: str) -> tuple[bytes, str]:
    """The metrics as text, and its content type."""
    encode, content_type = choose_encoder(accept)
    own = bytearray()
    scrape = Scrape()
    for family in _own(host, totals, answers):
        scrape.family = family
        own += encode(scrape).removesuffix(EOF)
    families = _Families()
    families.take(bytes(own), 0)
    for each in answers.done:
        families.take(each.body, each.cell)
    return families.text() + (EOF if "openmetrics" in content_type else b""), content_type


class _Families:
    """The lines of each family together, as the format wants them."""

    def __init__(self) -> None:
        self._heads: dict[bytes, list[bytes]] = {}
        self._samples: dict[bytes, list[bytes]] = {}

    def take(self, text: bytes, cell: int) -> None:
        """Add the lines of a cell; 0 = of the keeper, without a label."""
        label = b'cell="%d"' % cell
        family = b""
        for line in text.split(b"\n"):
            if line.startswith(_COMMENT):
                if line == EOF.strip():
                    continue
                family = line.split(b" ", 3)[2]
                head = self._heads.setdefault(family, [])
                self._samples.setdefault(family, [])
                if line not in head:
                    head.append(line)
            elif line:
                self._samples[family].append(_labelled(line, label) if cell else line)

    def text(self) -> bytes:
        """All of them."""
        lines = [line for family, head in self._heads.items() for line in (*head, *self._samples[family])]
        return b"\n".join(lines) + b"\n"


def _labelled(line: bytes, label: bytes) -> bytes:
    """A sample with one more label, in front of its others."""
    end = min(place for each in _SEPARATORS if (place := line.find(each)) >= 0)
    if line[end : end + 1] == b"{":
        return b"%s{%s,%s" % (line[:end], label, line[end + 1 :])
    return b"%s{%s}%s" % (line[:end], label, line[end:])


def _own(host: ManagedHost, totals: Totals, answers: CellAnswers) -> Iterator[Metric]:
    answered = {each.cell for each in answers.done}
    up = GaugeMetricFamily("sluice_cell_up", "Whether the cell serves, and answers.", labels=("cell",))
    restarts = CounterMetricFamily(
        "sluice_cell_restarts", "How often the keeper has started the cell again.", labels=("cell",)
    )
    for each in host.cells:
        up.add_metric((str(each.number),), each.number in answered)
        restarts.add_metric((str(each.number),), each.restarts)
    yield from (up, restarts, admin_refused(totals), certificates(host.expiry()))
