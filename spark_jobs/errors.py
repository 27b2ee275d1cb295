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
