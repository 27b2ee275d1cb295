"""Around measuring: a bench says at once if its files cannot be written, and stops what it has started."""

import signal
from pathlib import Path
from types import FrameType

import typer


def writable(path: Path | None) -> Path | None:
    """The callback of an option that names a file to write. Raises BadParameter before anything is measured.

    Typer's own check (`writable=True`) accepts a file that does not exist in a folder that does not.
    """
    if path is None:
        return None
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}: create it, or name another file")
    existed = path.exists()
    try:
        with path.open("a"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}") from None
    return path


def end_by_signals() -> None:
    """Have SIGTERM and SIGHUP end the program as Ctrl-C does: brokers are stopped, and their folders removed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # `nohup` sets SIG_IGN
            signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
