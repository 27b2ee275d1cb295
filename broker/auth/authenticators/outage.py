"""Failures of what authenticators ask: logged when they begin and when they are over, not at each login."""

from typing import NoReturn

import structlog

from broker.auth.authenticators.authenticator import Unavailable


class Outage:
    """Whether a service, database or plugin fails now."""

    def __init__(self, name: str) -> None:
        """`name`: the configuration key, for the log."""
        self._name = name
        self._lasts = False
        self._log = structlog.get_logger("sluice")

    def failed(self, detail: str) -> NoReturn:
        """Raise Unavailable. `detail` must quote nothing that is secret."""
        if not self._lasts:
            self._lasts = True
            self._log.error("authenticator_failed", authenticator=self._name, detail=detail)
        raise Unavailable

    def over(self) -> None:
        """An answer has come."""
        if self._lasts:
            self._lasts = False
            self._log.info("authenticator_recovered", authenticator=self._name)


def where(error: BaseException) -> str:
    """The type of an error, and the line that raised it: its text may quote what is secret."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    return type(error).__name__ + place
