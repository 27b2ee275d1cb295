"""One broker of the fleet: interval after interval of rows, written as files."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from broker.telemetry.collector import Rows
from broker.telemetry.interval_row import interval_row
from broker.telemetry.pending import in_order
from broker.telemetry.quarter import write_file
from broker.telemetry.schema import metrics_schema
from broker.telemetry.wall import WallClock
from broker.telemetry.writer import partition_of
from tests.support.spark.fleet.episodes import KINDS, Draw, Episode
from tests.support.spark.fleet.model import Model
from tests.support.spark.fleet.ordinary import Ordinary
from tests.support.spark.fleet.planted import Found, Planted
from tests.support.spark.fleet.population import FOREVER, populate

JITTER: Final = 20_000
"""Maximum delay of an export in microseconds."""

Tell = Callable[[int], None]


class Broker:
    """Makes the rows of one broker; `run` once."""

    def __init__(self, model: Model, number: int, root: Path) -> None:
        self.name = f"broker-{number + 1}"
        self.planted = Planted()
        self._model = model
        self._number = number
        self._root = root
        self._rng = np.random.default_rng([model.seed, number])
        self._clock = WallClock()
        self._to_monotonic = -self._clock.at(0)
        self._people = populate(model, number, self._rng, self._to_monotonic)
        self._rates = self._people.rates
        self._ordinary = Ordinary()
        self._begins = [who.created_at for who in self._people.who]
        """The start of each session's next row, on the monotonic clock."""
        self._last = np.maximum(self._people.born - 1, -1)
        """The interval of each session's last row."""
        self._seen = np.zeros(len(self._begins), bool)
        self._episodes: dict[int, Episode] = {}
        self._found: dict[int, Found] = {}
        self._agenda: dict[int, list[int]] = defaultdict(list)
        self._plan()

    def _plan(self) -> None:
        """Give a share of the sessions an episode each, at some time."""
        model, rng = self._model, self._rng
        settled = np.flatnonzero(self._people.dies == FOREVER)
        each = max(1, round(len(settled) * model.unfair / len(KINDS))) if model.unfair else 0
        chosen = rng.permutation(settled)[: each * len(KINDS)].tolist()
        room = model.intervals - 2
        for place, who in enumerate(chosen):
            kind = KINDS[place % len(KINDS)]
            most = min(kind.most, room)
            steps = int(rng.integers(min(kind.least, most), most + 1))
            start = int(rng.integers(1, model.intervals - steps))
            self._episodes[who] = kind(steps)
            self._agenda[start - 1].append(who)  # so that the episode's first row is one interval long
            for interval in range(start, start + steps):
                self._agenda[interval].append(who)
            self._episodes[who].start = start

    def run(self, tell: Tell) -> None:
        """Write all files; `tell` gets the number of rows after each export."""
        model = self._model
        files = model.files_of(self._number)
        tables: list[pa.Table] = []
        written = 0
        for interval in range(model.intervals):
            rows = self._export(interval)
            tell(len(rows))
            if len(rows):
                table = rows.table()
                self._count(table)
                tables += [table, interval_row(table, metrics_schema())]
            if model.ends_file(interval, written, files):
                self._write(tables, rows.wall_end, written)
                tables.clear()
                written += 1
        self.planted.sessions = int(self._seen.sum())
        self.planted.found += self._found.values()

    def _export(self, interval: int) -> Rows:
        model, people = self._model, self._people
        late = int(self._rng.integers(0, JITTER)) + self._number * 250_000 % model.interval_us
        end = model.start_us + (interval + 1) * model.interval_us + late + self._to_monotonic
        rows = Rows(metrics_schema(), self.name, end, self._clock)
        chosen = self._choose(interval)
        self._last[chosen] = interval
        self._seen[chosen] = True
        offered = self._rng.poisson(self._rates[chosen]).tolist()
        received = self._rng.poisson(1.0, len(chosen)).tolist()
        ending = (people.dies[chosen] == interval).tolist()
        begins, episodes, sizes = self._begins, self._episodes, people.sizes
        for who, came, said, ends in zip(chosen.tolist(), offered, received, ending, strict=True):
            begin = begins[who]
            connected = not ends
            episode = episodes.get(who)
            if episode is not None and interval >= episode.start:
                counters = episode.row(Draw(begin, end - begin, came, said, sizes[who]))
                connected = episode.connected
                counters.begin_uncommon().connected_us = end - begin if connected else 0
                self._note(who, episode, rows, begin).add(counters, self._clock.at(begin), rows.wall_end, connected)
                if episode.over:
                    del episodes[who]
            else:
                counters = self._ordinary.row(begin, came, said, sizes[who])
                counters.begin_uncommon().connected_us = (end - begin) // 2 if ends else end - begin
            rows.add(people.who[who], counters, connected=connected, ended=ends)
            begins[who] = end
            if rows.full:
                rows.batch()
        return rows

    def _note(self, who: int, episode: Episode, rows: Rows, begin: int) -> Found:
        found = self._found.get(who)
        if found is None:
            session, at = self._people.who[who], self._clock.at
            started = at(session.created_at)
            found = Found(episode.kind, self.name, session.client_id, started, at(begin), rows.wall_end)
            self._found[who] = found
        return found

    def _choose(self, interval: int) -> NDArray[np.int64]:
        """The sessions with a row in this export, in order: those with news, and others at random."""
        people, model = self._people, self._model
        alive = (people.born <= interval) & (people.dies >= interval)
        wanted = model.rows_of(self._number, interval)
        if wanted is None or wanted >= int(alive.sum()):
            return np.flatnonzero(alive)
        must = people.dies == interval
        must |= interval - self._last >= model.heartbeat_us // model.interval_us
        must[self._agenda.get(interval, [])] = True
        must &= alive
        scores = self._rng.random(len(alive))
        scores[must] = -1.0
        scores[~alive] = 2.0
        wanted = max(wanted, int(must.sum()))
        return np.sort(np.argpartition(scores, wanted - 1)[:wanted]) if wanted else np.flatnonzero(must)

    def _write(self, tables: list[pa.Table], wall_end: int, number: int) -> None:
        if not tables:
            return
        table = in_order(pa.concat_tables(tables, promote_options="default")).cast(
            metrics_schema().of_file(self._model.interval_us / 1e6)
        )
        path = self._root / partition_of(wall_end) / f"{self.name}-{wall_end}-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file([table], path, table.schema)
        self.planted.files += 1

    def _count(self, table: pa.Table) -> None:
        self.planted.rows += table.num_rows
        names = metrics_schema().counters + metrics_schema().drops
        self.planted.count({name: pc.sum(table.column(name)).as_py() for name in names})
