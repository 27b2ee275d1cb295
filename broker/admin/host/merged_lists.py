"""Lists of all cells as one: each cell gives a page of its own, and the first rows of all these are the page."""

from typing import Any, Final

from fastapi import HTTPException

from broker.admin.api.lists import cursor, read_cursor
from broker.admin.host.all_cells import CellAnswers

IN_EVERY_CELL: Final = ("retained",)
"""Lists whose items each cell has: one is shown once, as the first of these cells has it."""

_MARK: Final = "."
"""Between the cursor of a cell and the number of the cell with the last row; it is not in base64."""


class MergedList:
    """One page of one list."""

    def __init__(self, name: str, after: str | None, limit: int, cells: int) -> None:
        """`after`: the cursor; `cells`: how many there are. Raises HTTPException for a wrong cursor."""
        self._name = name
        self._once = name in IN_EVERY_CELL
        self._limit = limit
        self._cells = cells
        self._place: tuple[int, str] | None = None
        self._last_cell = cells
        if after is not None:
            inner, mark, number = after.rpartition(_MARK)
            self._place, _ = read_cursor(inner if mark else after)
            if mark and number.isascii() and number.isdigit():
                self._last_cell = int(number)

    def after(self, cell: int) -> str | None:
        """The cursor for a cell. Items of several cells may have one name: later cells still have theirs to show."""
        if self._place is None:
            return None
        return cursor(self._place, including=cell > self._last_cell and not self._once)

    def merged(self, answers: CellAnswers) -> dict[str, Any]:
        """The page, from the answers of the cells, at least one."""
        pages = [(each.cell, each.json) for each in answers.done]
        rows = sorted(
            ((-value, name, cell, item) for cell, page in pages for (value, name), item in _rows(page)),
            key=lambda row: row[:3],
        )
        if self._once:
            first: dict[str, tuple[int, str, int, Any]] = {}
            for row in rows:
                first.setdefault(row[1], row)
            rows = list(first.values())
        shown = rows[: self._limit]
        more = len(rows) > len(shown) or any(page["next"] is not None for _, page in pages)
        count = max if self._once else sum
        _, newest = max(pages, key=lambda each: each[1]["clock_us"])
        return {
            "what": self._name,
            "sort": newest["sort"],
            "total": count([page["total"] for _, page in pages]),
            "matched": count([page["matched"] for _, page in pages]),
            "time_us": newest["time_us"],
            "clock_us": newest["clock_us"],
            "next": self._next(shown) if more and shown else None,
            "cells": self._cells,
            "unanswered": answers.unanswered,
            "items": [{"cell": cell, **item} for _, _, cell, item in shown],
        }

    def _next(self, shown: list[tuple[int, str, int, Any]]) -> str:
        negated, name, cell, _ = shown[-1]
        return f"{cursor((-negated, name))}{_MARK}{self._cells if self._once else cell}"


def _rows(page: dict[str, Any]) -> Any:
    return zip(page["places"], page["items"], strict=True)


def limit_of(text: str | None, default: int) -> int:
    """The number of rows; cells refuse a wrong one."""
    if text is None:
        return default
    try:
        return max(int(text), 1)
    except ValueError:
        raise HTTPException(422, f"limit: found {text[:20]!r}: write a number") from None
