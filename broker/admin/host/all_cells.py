"""One question to several cells at once."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from broker.admin.host.asking import CellQuestion, NoAnswerError, asking, in_time
from broker.admin.host.managed_host import AskedCell

PATIENCE: Final = 30.0
"""Seconds that a cell has for an answer that may need a walk. A cell that hangs is not waited for so long."""

QUICK: Final = 5.0
"""The same for what needs no walk."""

_REFUSED: Final = 400
_FAILED: Final = 500


class CellAnswer(NamedTuple):
    """The answer of one cell."""

    cell: int
    status: int
    content_type: str
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        """Why it is a refusal."""
        found = self.json
        return str(found.get("detail") or "; ".join(found.get("reasons", ())) or f"status {self.status}")


class CellAnswers(NamedTuple):
    """What the cells have answered, by their numbers, and why others have not."""

    done: list[CellAnswer]
    refused: list[CellAnswer]
    missing: dict[int, str]

    @property
    def unanswered(self) -> list[str]:
        """Which cells have not answered, and why."""
        return [f"cell {number} {why}" for number, why in sorted(self.missing.items())]


async def ask_cells(cells: Iterable[AskedCell], questions: Mapping[int, CellQuestion], seconds: float) -> CellAnswers:
    """Ask all cells at once; `questions` has that of each cell, by its number."""
    asked = [each for each in cells if each.number in questions]
    found = await asyncio.gather(*(_ask(each, questions[each.number], seconds) for each in asked))
    answers = CellAnswers([], [], {})
    for cell, answer in zip(asked, found, strict=True):
        if isinstance(answer, str):
            answers.missing[cell.number] = answer
        elif answer.status >= _FAILED and answer.content_type != _JSON:
            answers.missing[cell.number] = f"has failed: its log says why (status {answer.status})"
        else:
            (answers.done if answer.status < _REFUSED else answers.refused).append(answer)
    return answers


_JSON: Final = "application/json"


async def _ask(cell: AskedCell, question: CellQuestion, seconds: float) -> CellAnswer | str:
    try:
        async with asking(cell, question, seconds) as response:
            body = await in_time(cell, response.body(), seconds)
            return CellAnswer(cell.number, response.status, response.content_type, body)
    except NoAnswerError as error:
        return str(error)
