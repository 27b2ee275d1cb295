"""The files that a bench is told to write: it says at once if they cannot be written."""

from pathlib import Path

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
