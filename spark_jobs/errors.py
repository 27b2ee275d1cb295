"""Errors for reasons outside this program."""


class ReportError(Exception):
    """An error that the user can correct.

    The message says what is wrong, where, and what was expected. It is printed without a traceback; exit code 2.
    """


def was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C caused this error: it breaks the protocol with Java, so that cleaning up can fail too."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None
