"""What packets wait for before they are written: commits of the journal (FC-27), or other cells (CL-3)."""

from broker.runtime.endpoint import Endpoint


class Barrier:
    """It reaches one number after the other; a packet waits for one of them."""

    def __init__(self) -> None:
        self.committed = 0
        """The last number that has been reached."""

    def wait(self, endpoint: Endpoint, commit: int) -> None:
        """Have the endpoint's socket write on when this number has been reached."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
