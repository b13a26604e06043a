"""How long this worker may work without hearing from its dispatcher. Pure: time is an argument.

Invariant: a renewal counts from before the worker asked for it, less the age that the answer names, so that the
worker's deadline always lies before the moment from which its runs may be given to another. An answer that arrives
after a freeze is as old as its question and extends nothing.

While the database is away there are no renewals, and nobody who could give runs to another: the worker may go on from
before it asked every dispatcher, if each answers that it is without the database. One that does not answer may be the
one that has it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration

from escapement_worker._proto import worker_pb2

_ASKED_MAX = 64
"""The most questions that are remembered; the link is given up long before."""
_LIST_AGE_MAX = 7.0
"""How old, in seconds, a list of dispatchers may be when they are asked by it."""
_ASK_EVERY = 1.0
"""Seconds between two times that all are asked."""


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


@dataclass(frozen=True)
class Peer:
    """A dispatcher: its process, and where it answers."""

    id: str
    address: str


@dataclass(frozen=True)
class Renewal:
    """What a dispatcher says in the answer to a heartbeat.

    `age` is that of its last renewal. Only one that is without the database names all dispatchers, as it knew them
    `list_age` seconds ago.
    """

    age: float | None = None
    peers: tuple[Peer, ...] = ()
    list_age: float = 0.0

    @staticmethod
    def read(ack: worker_pb2.HeartbeatAck) -> "Renewal":
        """As it stands in an answer."""
        named = ack.dispatchers if ack.without_database and ack.HasField("list_age") else ()
        return Renewal(
            age=seconds(ack.renewal_age) if ack.HasField("renewal_age") else None,
            peers=tuple(Peer(peer.id, peer.address) for peer in named),
            list_age=seconds(ack.list_age),
        )


@dataclass(frozen=True)
class Question:
    """All of them are to be asked whether they have the database; `asked` is from before the first is."""

    asked: float
    peers: tuple[Peer, ...]


def is_without(peer: Peer, standing: worker_pb2.StandingResponse) -> bool:
    """Whether the dispatcher itself says that it is without the database."""
    return bool(standing.dispatcher_id == peer.id and standing.without_database)


class Lease:
    """The worker's lease as it knows it."""

    def __init__(self) -> None:
        """Not granted."""
        self.terms = Terms()
        self._renewed_until: float | None = None
        self._vouched_until: float | None = None
        self._peers: tuple[tuple[Peer, ...], float] | None = None
        self._asked_all: float | None = None
        self._heard: float | None = None
        self._sequence = 0
        self._asked: deque[tuple[int, float]] = deque(maxlen=_ASKED_MAX)

    def grant(self, terms: Terms, asked: float, resumed: bool) -> None:
        """A connection was welcomed; `asked` is from before the Hello was sent.

        A new session's row was written after that; the first heartbeat's answer corrects the deadline by the age of
        the dispatcher's own row. A resumed session goes on as it was: the dispatcher counts from what this worker
        said that it had heard, not from the Hello, because it can't know whether its Welcome arrives.
        """
        self.terms = terms
        if not resumed or self._renewed_until is None:
            self._renewed_until = asked + terms.self_deadline
            self._vouched_until = None
            self._heard = asked
        self._sequence = 0
        self._asked.clear()
        self.disconnected()

    def disconnected(self) -> None:
        """The connection is gone, and with it whom to ask: only a connection's own dispatcher is sure to be asked."""
        self._peers = None
        self._asked_all = None

    def ask(self, now: float) -> int:
        """A heartbeat is about to be sent; its sequence number."""
        self._sequence += 1
        self._asked.append((self._sequence, now))
        return self._sequence

    def answered(self, sequence: int, renewal: Renewal) -> None:
        """A heartbeat was answered; an answer without an age renews nothing.

        The newest question decides, also when it shortens the lease: after a move to another dispatcher it is that
        one's renewal that counts.
        """
        asked = dict(self._asked).get(sequence)
        if asked is None:
            return
        while self._asked and self._asked[0][0] <= sequence:
            self._asked.popleft()
        self._has_heard(asked)
        if renewal.age is not None:
            self._renewed_until = asked - renewal.age + self.terms.self_deadline
        self._peers = (renewal.peers, asked - renewal.list_age) if renewal.peers else None

    def question(self, now: float) -> Question | None:
        """Whom to ask now, when the dispatcher is without the database and the lease still holds."""
        if self._peers is None or not self.is_valid(now):
            return None
        peers, listed = self._peers
        if now - listed >= _LIST_AGE_MAX or (self._asked_all is not None and now - self._asked_all < _ASK_EVERY):
            return None
        self._asked_all = now
        return Question(now, peers)

    def vouched(self, asked: float, without: Sequence[bool], now: float) -> bool:
        """All were asked at `asked`; each said whether it is without the database.

        True when the lease goes on for that; one that has ended meanwhile stays ended.
        """
        if not without or not all(without) or not self.is_valid(now):
            return False
        until = asked + self.terms.self_deadline
        self._vouched_until = max(until, until if self._vouched_until is None else self._vouched_until)
        self._has_heard(asked)
        return True

    def unheard(self, now: float) -> float | None:
        """How long ago the question was asked that was answered last; none before the first Welcome."""
        return None if self._heard is None else now - self._heard

    def _has_heard(self, asked: float) -> None:
        self._heard = asked if self._heard is None else max(self._heard, asked)

    @property
    def until(self) -> float | None:
        """Its end."""
        ends = [end for end in (self._renewed_until, self._vouched_until) if end is not None]
        return max(ends, default=None)

    def is_valid(self, now: float) -> bool:
        """True while the worker may work."""
        until = self.until
        return until is not None and now < until

    def silence(self, now: float) -> float:
        """How long the oldest question has waited for its answer."""
        return now - self._asked[0][1] if self._asked else 0.0
