"""How long this worker may work without hearing from its dispatcher. Pure: time is an argument.

Invariant: a renewal counts from before the worker asked for it, less the age that the answer names, so that the
worker's deadline always lies before the moment from which its runs may be given to another. An answer that arrives
after a freeze is as old as its question and extends nothing.
"""

from collections import deque
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration

from escapement_worker._proto import worker_pb2

_ASKED_MAX = 64
"""The most questions that are remembered; the link is given up long before."""


@dataclass(frozen=True)
class Terms:
    """What the dispatcher demands, in seconds."""

    heartbeat_interval: float = 3.0
    self_deadline: float = 9.0
    kill_grace: float = 4.0

    @staticmethod
    def read(welcome: worker_pb2.Welcome) -> "Terms":
        """The terms of a Welcome; what it leaves out has its default."""
        default = Terms()
        return Terms(
            heartbeat_interval=seconds(welcome.heartbeat_interval) or default.heartbeat_interval,
            self_deadline=seconds(welcome.self_deadline) or default.self_deadline,
            kill_grace=seconds(welcome.kill_grace) or default.kill_grace,
        )


def seconds(duration: Duration) -> float:
    """A duration in seconds; a negative one counts as zero."""
    return float(max(0.0, duration.seconds + duration.nanos / 1e9))


class Lease:
    """The worker's lease as it knows it."""

    def __init__(self) -> None:
        """Not granted."""
        self.terms = Terms()
        self.until: float | None = None
        self._sequence = 0
        self._asked: deque[tuple[int, float]] = deque(maxlen=_ASKED_MAX)

    def grant(self, terms: Terms, asked: float) -> None:
        """A connection was welcomed; `asked` is from before the Hello was sent.

        The dispatcher has written the session's row after that; the first heartbeat's answer corrects the deadline
        by the age of the dispatcher's own row.
        """
        self.terms = terms
        self.until = asked + terms.self_deadline
        self._sequence = 0
        self._asked.clear()

    def ask(self, now: float) -> int:
        """A heartbeat is about to be sent; its sequence number."""
        self._sequence += 1
        self._asked.append((self._sequence, now))
        return self._sequence

    def answered(self, sequence: int, renewal_age: float | None) -> None:
        """A heartbeat was answered; an answer without an age renews nothing.

        The newest question decides, also when it shortens the lease: after a move to another dispatcher it is that
        one's renewal that counts.
        """
        asked = dict(self._asked).get(sequence)
        if asked is None:
            return
        while self._asked and self._asked[0][0] <= sequence:
            self._asked.popleft()
        if renewal_age is not None:
            self.until = asked - renewal_age + self.terms.self_deadline

    def is_valid(self, now: float) -> bool:
        """True while the worker may work."""
        return self.until is not None and now < self.until

    def silence(self, now: float) -> float:
        """How long the oldest question has waited for its answer."""
        return now - self._asked[0][1] if self._asked else 0.0
