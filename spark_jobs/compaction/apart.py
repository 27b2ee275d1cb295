"""Calls a function in a process of its own: on some damaged files pyarrow ends the process that reads them."""

import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Result = TypeVar("Result")


def apart(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of the function, or what it raises.

    Raises:
        ChildProcessError: the process has ended without either.
    """
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(there, function, arguments))
    process.start()
    there.close()
    try:
        failed, found = here.recv()
    except EOFError:
        raise ChildProcessError("the process that reads the files has ended") from None
    finally:
        process.kill()
        process.join()
        here.close()
    if failed:
        raise found
    result: Result = found
    return result


def _call(sending: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # after Ctrl-C the caller ends this process
    try:
        result = (False, function(*arguments))
    except Exception as error:
        result = (True, error)
    with suppress(BrokenPipeError):  # the caller has ended
        sending.send(result)
