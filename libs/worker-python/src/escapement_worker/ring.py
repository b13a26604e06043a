"""Which dispatcher's turn it is: around the list, but for one that asks this worker to connect to another.

Owns the place in the list. Invariant: a worker that is sent on tries one other address and, if that fails, goes back to
where it came from before it tries a third. So a move costs one failed attempt at most, however many addresses don't
answer, and not the lease.
"""


class Ring:
    """See the module."""

    def __init__(self, count: int, start: int) -> None:
        """Begins at `start` of `count` addresses."""
        self._count = count
        self._current = start
        # Whether the current dispatcher could take this worker in again, by its last answer on this connection.
        self._takes_back = False
        # Where this worker was sent from, until that has turned out well or failed.
        self._sent_from: int | None = None
        # Back there: which is next if that fails too.
        self._then: int | None = None

    @property
    def current(self) -> int:
        """The place in the list that is, or will next be, dialled."""
        return self._current

    def failed(self) -> None:
        """The current dispatcher could not be reached, or its connection has ended."""
        following = (self._current + 1) % self._count
        if self._sent_from is not None:
            self._current, self._sent_from, self._then = self._sent_from, None, following
        else:
            self._current, self._then = following if self._then is None else self._then, None
        self._takes_back = False

    def sent_on(self) -> None:
        """The current dispatcher asks this worker to connect to another.

        One that has not shown that it could take it back is left like one that failed.
        """
        sent_from = self._current if self._takes_back else None
        self.failed()
        if sent_from is not None:
            self._sent_from = sent_from

    def answered(self, *, without_database: bool) -> None:
        """The current dispatcher has answered a heartbeat; without the database it could not take a worker in."""
        self._takes_back = not without_database
        self._sent_from = self._then = None
