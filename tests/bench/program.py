"""How a bench runs as a command: SIGTERM and SIGHUP end it as Ctrl-C does, so that it stops what it has started."""

import signal
from collections.abc import Callable
from types import FrameType

import typer


def run(main: Callable[..., None]) -> None:
    """Run `main` with the options of the command line. Brokers are stopped, and their folders removed, at a signal."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # `nohup` sets SIG_IGN
            signal.signal(number, _end)
    typer.run(main)


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
