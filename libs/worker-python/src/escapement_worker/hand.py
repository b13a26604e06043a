"""The runs that this worker has in hand, and what must be done about them. Pure: time is an argument.

Each method is one event; it changes the table and returns the actions that follow. Invariants: an attempt is started
once; it stays in hand, and is named in heartbeats, until its completion is acknowledged; nothing starts while the
lease is not valid, nor beside another attempt of the same run; at most `slots` run at a time, what comes beyond
waits. Deliberately knows no connection: whether a message got through shows in the acknowledgement alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf import duration_pb2

from escapement_worker._proto import worker_pb2
from escapement_worker.assignment import Assignment, Attempt, RunKey
from escapement_worker.lease import Lease, Question, Renewal, Terms
from escapement_worker.report import Cause, End, Report, StopCause, completed


@dataclass(frozen=True)
class Start:
    """Start the work."""

    assignment: Assignment


@dataclass(frozen=True)
class Stop:
    """Ask the work to stop, and end it after the grace."""

    attempt: Attempt
    cause: StopCause


@dataclass(frozen=True)
class Accepted:
    """Tell the dispatcher that it has started."""

    attempt: Attempt


@dataclass(frozen=True)
class Completed:
    """Tell the dispatcher that it has ended."""

    message: worker_pb2.Completed


Action = Start | Stop | Accepted | Completed
"""What is to be done after an event, in the order of the list."""


@dataclass
class _Waiting:
    """For a slot, for the lease, or for the end of an older attempt."""

    assignment: Assignment


@dataclass
class _Running:
    """Until `max_runtime` is over; `stop` is why it was asked to end before."""

    until: float
    stop: StopCause | None = None


@dataclass
class _Ended:
    """Until the completion is acknowledged."""

    message: worker_pb2.Completed
    sent: float


_Entry = _Waiting | _Running | _Ended

_NOT_STARTED = Report(End.NOT_STARTED)


class Hand:
    """The table."""

    def __init__(self, slots: int) -> None:
        """Empty, for `slots` runs at a time."""
        self.lease = Lease()
        self.running = 0
        self._slots = slots
        self._runs: dict[RunKey, dict[Attempt, _Entry]] = {}
        self._waiting: dict[Attempt, None] = {}
        self._processed = 0

    def __len__(self) -> int:
        """How many attempts are in hand."""
        return sum(len(attempts) for attempts in self._runs.values())

    def welcomed(self, terms: Terms, asked: float, resumed: bool, now: float) -> list[Action]:
        """A connection was welcomed; `asked` is from before its Hello. What the last may have lost is said again."""
        self._processed = 0
        self.lease.grant(terms, asked, resumed)
        actions: list[Action] = []
        for attempt, entry in self._entries():
            if isinstance(entry, _Running):
                actions.append(Accepted(attempt))
            elif isinstance(entry, _Ended):
                entry.sent = now
                actions.append(Completed(entry.message))
        if not resumed:
            actions += self.stop_all(StopCause(Cause.SESSION_GONE), now)
        return actions + self._start_waiting(now)

    def assigned(self, number: int, assignment: Assignment, now: float) -> list[Action]:
        """An assignment arrived. One that is in hand already is only answered again."""
        self.skipped(number)
        attempt = assignment.attempt
        attempts = self._runs.get(attempt.run, {})
        entry = attempts.get(attempt)
        if isinstance(entry, _Running):
            return [Accepted(attempt)]
        if isinstance(entry, _Ended):
            return [Completed(entry.message)]
        if entry is not None:
            return []
        if any(other > attempt for other in attempts):
            return self._end(attempt, StopCause(Cause.NEWER_ATTEMPT), _NOT_STARTED, now)
        actions: list[Action] = []
        for older in list(attempts):
            actions += self._stop(older, StopCause(Cause.NEWER_ATTEMPT), now)
        self._set(attempt, _Waiting(assignment))
        self._waiting[attempt] = None
        return actions + self._start_waiting(now)

    def skipped(self, number: int) -> None:
        """An assignment arrived, perhaps one that names no attempt: it counts as processed."""
        self._processed = max(self._processed, number)

    def ended(self, attempt: Attempt, report: Report, stopped: bool, now: float) -> list[Action]:
        """The work of a running attempt has ended; `stopped` when it had been asked to before."""
        entry = self._get(attempt)
        if not isinstance(entry, _Running):
            return []
        self.running -= 1
        cause = entry.stop if stopped else None
        return self._end(attempt, cause, report, now) + self._start_waiting(now)

    def cancelled(self, attempt: Attempt, reason: str, now: float) -> list[Action]:
        """The dispatcher wants an attempt stopped."""
        return self._stop(attempt, StopCause(Cause.CANCELLED, reason), now)

    def acknowledged(self, attempt: Attempt) -> None:
        """The dispatcher has a completion, or refuses it as stale: either way the attempt is no longer ours."""
        if isinstance(self._get(attempt), _Ended):
            attempts = self._runs[attempt.run]
            del attempts[attempt]
            if not attempts:
                del self._runs[attempt.run]

    def renewed(self, sequence: int, renewal: Renewal, now: float) -> list[Action]:
        """A heartbeat was answered."""
        self.lease.answered(sequence, renewal)
        return self._start_waiting(now)

    def question(self, now: float) -> Question | None:
        """Whom to ask whether they have the database, if something runs that may end for want of a renewal."""
        going = any(isinstance(entry, _Running) and entry.stop is None for _, entry in self._entries())
        return self.lease.question(now) if going else None

    def passed(self, now: float) -> list[Action]:
        """Time has passed. Comes first, before whatever else happened: after a freeze the expired lease decides."""
        expired = not self.lease.is_valid(now)
        actions: list[Action] = []
        for attempt, entry in self._entries():
            if isinstance(entry, _Running) and (entry.until <= now or expired):
                cause = Cause.TIMED_OUT if entry.until <= now else Cause.LEASE_EXPIRED
                actions += self._stop(attempt, StopCause(cause), now)
        return actions

    def stop_all(self, cause: StopCause, now: float) -> list[Action]:
        """Everything that has not ended yet is stopped for `cause`."""
        return [action for attempt, _ in list(self._entries()) for action in self._stop(attempt, cause, now)]

    def heartbeat(self, now: float) -> tuple[worker_pb2.Heartbeat, list[Action]]:
        """The next heartbeat, and the completions that have waited for an acknowledgement since the last one."""
        heartbeat = worker_pb2.Heartbeat(
            sequence=self.lease.ask(now),
            processed=self._processed,
            in_hand=self.in_hand(),
            unheard=self.unheard(now),
        )
        again: list[Action] = []
        for _, entry in self._entries():
            if isinstance(entry, _Ended) and now - entry.sent >= self.lease.terms.heartbeat_interval:
                entry.sent = now
                again.append(Completed(entry.message))
        return heartbeat, again

    def unheard(self, now: float) -> duration_pb2.Duration | None:
        """How long ago what was answered last was asked, for Hello and heartbeats."""
        unheard = self.lease.unheard(now)
        if unheard is None:
            return None
        return duration_pb2.Duration(seconds=int(unheard), nanos=int(unheard % 1 * 1e9))

    def in_hand(self) -> list[worker_pb2.RunRef]:
        """Every run in hand, for Hello and heartbeats."""
        return [attempt.to_ref() for attempt, _ in self._entries()]

    def wakes_at(self) -> float | None:
        """When `passed` has something to do next."""
        going = [entry for _, entry in self._entries() if isinstance(entry, _Running) and entry.stop is None]
        moments = [entry.until for entry in going]
        if going and self.lease.until is not None:
            moments.append(self.lease.until)
        return min(moments, default=None)

    def _entries(self) -> Iterator[tuple[Attempt, _Entry]]:
        for attempts in self._runs.values():
            yield from attempts.items()

    def _get(self, attempt: Attempt) -> _Entry | None:
        return self._runs.get(attempt.run, {}).get(attempt)

    def _set(self, attempt: Attempt, entry: _Entry) -> None:
        self._runs.setdefault(attempt.run, {})[attempt] = entry

    def _start_waiting(self, now: float) -> list[Action]:
        actions: list[Action] = []
        if not self.lease.is_valid(now):
            return actions
        for attempt in list(self._waiting):
            entry = self._get(attempt)
            if self.running >= self._slots:
                break
            if not isinstance(entry, _Waiting) or self._another_runs(attempt):
                continue
            del self._waiting[attempt]
            self._set(attempt, _Running(until=now + entry.assignment.max_runtime))
            self.running += 1
            actions += [Start(entry.assignment), Accepted(attempt)]
        return actions

    def _another_runs(self, attempt: Attempt) -> bool:
        """True while another attempt of the same run still runs."""
        return any(isinstance(entry, _Running) for entry in self._runs.get(attempt.run, {}).values())

    def _stop(self, attempt: Attempt, cause: StopCause, now: float) -> list[Action]:
        """Asks a running attempt to stop, once; ends one that has not started."""
        entry = self._get(attempt)
        if isinstance(entry, _Running) and entry.stop is None:
            entry.stop = cause
            return [Stop(attempt, cause)]
        if isinstance(entry, _Waiting):
            del self._waiting[attempt]
            return self._end(attempt, cause, _NOT_STARTED, now)
        return []

    def _end(self, attempt: Attempt, cause: StopCause | None, report: Report, now: float) -> list[Action]:
        message = completed(attempt, cause, report)
        self._set(attempt, _Ended(message, now))
        return [Completed(message)]
