"""Hundreds of refused clients a second: nobody wants to read of each."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

_NOTHING = structlog.make_filtering_bound_logger(logging.CRITICAL)


def be_quiet() -> None:
    """Log nothing from now on."""
    structlog.configure(wrapper_class=_NOTHING)


@contextmanager
def quiet() -> Iterator[None]:
    """Log nothing in this block."""
    before = structlog.get_config()
    be_quiet()
    try:
        yield
    finally:
        structlog.configure(**before)
