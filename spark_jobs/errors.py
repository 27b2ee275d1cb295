"""What can go wrong with a report for reasons outside this program."""


class ReportError(Exception):
    """The job cannot go on, and the reader of the message can do something about it.

    The message says what is wrong, where, and what would be right. It is printed without a traceback; exit
    code 2.
    """
