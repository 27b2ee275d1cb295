"""What every refusal looks like."""

from typing import Any, Final

from pydantic import BaseModel


class Problem(BaseModel):
    """Why a request is refused."""

    detail: str


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an endpoint that may refuse with these."""
    return {status: {"model": Problem} for status in statuses}


EVERYWHERE: Final = refusals(400, 403, 411, 413, 421, 422)
"""Bodies that are not text, pages of others, bodies of unknown size or too large, wrong hosts, wrong values."""
