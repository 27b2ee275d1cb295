"""What can go wrong with a report for reasons outside this program."""


class ReportError(Exception):
    """The job cannot go on, and the reader of the message can do something about it.

    The message says what is wrong, where, and what would be right. It is printed without a traceback; exit
    code 2.
    """


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark raises when a job fails."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return Py4JJavaError, PySparkException


def was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C has led to this error: after it Java's answers no longer fit, so that tidying up may fail too."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None
