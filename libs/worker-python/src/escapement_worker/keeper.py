"""The one thread that keeps the session: events in, actions of the hand out.

Owns hand, link and workforce. Invariants: it never waits for anything but the next event, so that deadlines are kept
whatever connection and work do; and time comes before the event, so that a process that was frozen sees its expired
lease before anything else.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from escapement_worker import clock
from escapement_worker._proto import worker_pb2
from escapement_worker.ask import Answers, Asker
from escapement_worker.assignment import Assignment, Attempt, InvalidAttemptError
from escapement_worker.context import RunContext
from escapement_worker.hand import Accepted, Action, Completed, Hand, Start, Stop
from escapement_worker.lease import Renewal, Terms
from escapement_worker.link import CONNECT_LIMIT, Closed, Dispatcher, Heard, Link
from escapement_worker.report import Cause, StopCause
from escapement_worker.work import Handler, WorkEnded, Workforce

_SLEEP_MAX = 0.5
"""The longest sleep, in seconds: after a suspend the clock has jumped and the timers have not."""
_LAST_REPORTS = 1.0
"""Seconds that are left of a drain for the last completions to be acknowledged."""
_SHOW_EVERY = 1.0
"""Seconds between two times that running work is shown."""
_CAPACITY_MIN = 4096
"""Messages that may be under way on a connection beside those of the slots."""

_log = logging.getLogger("escapement_worker")


@dataclass(frozen=True)
class Identity:
    """Who this worker is."""

    name: str
    queues: tuple[str, ...]
    slots: int
    labels: Mapping[str, str]
    version: str


@dataclass(frozen=True)
class Summary:
    """How a worker has ended.

    `finished` counts the attempts whose work ended here; `unreported` those that were left in hand when the drain was
    over, and will count as lost.
    """

    finished: int
    unreported: int


@dataclass(frozen=True)
class Shutdown:
    """Somebody wants the worker to end."""


Event = Heard | Closed | Answers | WorkEnded | Shutdown


@dataclass
class _Drain:
    """The way out: when to stop what still runs, and when to end without it."""

    stop_at: float
    end_at: float
    stopped: bool = False


class Keeper:
    """See the module."""

    def __init__(
        self,
        identity: Identity,
        handlers: dict[str, Handler],
        dispatchers: list[Dispatcher],
        token: str,
        find: Callable[[str], Dispatcher],
        drain_limit: float,
    ) -> None:
        """Not running yet."""
        # SimpleQueue's put may interrupt its own get: a signal's handler runs in the thread that waits.
        self.inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._identity = identity
        self._hand = Hand(identity.slots)
        self._link = Link(dispatchers, token, _CAPACITY_MIN + 4 * identity.slots, self.inbox.put)
        self._workforce = Workforce(handlers, self.inbox.put)
        self._asker = Asker(token, find, self.inbox.put)
        self._vouched = False
        self._show_at = 0.0
        self._session_id = ""
        self._heartbeat_at = 0.0
        self._drain_limit = drain_limit
        self._drain: _Drain | None = None
        self._trouble = ""
        self._finished = 0

    def run(self) -> Summary:
        """Works until a `Shutdown` arrives, then drains."""
        try:
            while not self._is_done(clock.now()):
                event = self._next()
                now = clock.now()
                self._perform(self._hand.passed(now), now)
                self._workforce.passed(now)
                self._happened(event, now)
                self._keep_time(now)
            return Summary(self._finished, len(self._hand))
        finally:
            self._link.close()
            self._workforce.close()

    def _next(self) -> Event | None:
        try:
            return self.inbox.get(timeout=self._sleep(clock.now()))
        except queue.Empty:
            return None

    def _sleep(self, now: float) -> float:
        wakes = [self._hand.wakes_at(), self._workforce.wakes_at(), self._link.wakes_at()]
        if self._link.is_up():
            wakes.append(self._heartbeat_at)
        if self._drain is not None:
            wakes.append(self._drain.end_at if self._drain.stopped else self._drain.stop_at)
        first = min((wake for wake in wakes if wake is not None), default=now)
        return min(max(0.0, first - now), _SLEEP_MAX)

    def _happened(self, event: Event | None, now: float) -> None:
        if isinstance(event, WorkEnded):
            self._work_ended(event, now)
        elif isinstance(event, Shutdown):
            self._start_drain(now)
        elif isinstance(event, Answers):
            self._answered(event, now)
        elif isinstance(event, Closed) and self._link.is_current(event):
            self._give_up_link(event.why, now)
        elif isinstance(event, Heard) and self._link.is_current(event):
            self._told(event.message, now)

    def _told(self, message: worker_pb2.ToWorker, now: float) -> None:
        kind = message.WhichOneof("message")
        if not self._link.is_up() and kind != "welcome":
            self._give_up_link("the dispatcher's first message is not Welcome", now)
            return
        try:
            if kind == "welcome":
                self._welcomed(message.welcome, now)
            elif kind == "assignment":
                self._assigned(message.assignment, now)
            elif kind == "completion_ack":
                self._acknowledged(message.completion_ack)
            elif kind == "cancel":
                cancel = message.cancel
                self._perform(self._hand.cancelled(Attempt.read(cancel.run), cancel.reason, now), now)
            elif kind == "heartbeat_ack":
                self._renewed(message.heartbeat_ack, now)
            elif kind == "drain":
                self._sent_on(now)
        except InvalidAttemptError as error:
            _log.error("Got a message that can't be understood kind=%s error=%s", kind, error)

    def _welcomed(self, welcome: worker_pb2.Welcome, now: float) -> None:
        asked = self._link.welcomed()
        if asked is None:
            return
        _log.info(
            "Connected to a dispatcher dispatcher.address=%s session.id=%s session.connection=%d "
            "session.resumed=%s runs.in_hand=%d",
            *(self._link.address, welcome.session_id, welcome.connection, welcome.resumed, len(self._hand)),
        )
        resumed = welcome.resumed or not self._session_id
        self._session_id = welcome.session_id
        self._heartbeat_at = now
        self._perform(self._hand.welcomed(Terms.read(welcome), asked, resumed, now), now)
        if self._drain is not None:
            self._send(worker_pb2.FromWorker(drain=worker_pb2.Drain()), now)

    def _assigned(self, message: worker_pb2.Assignment, now: float) -> None:
        self._hand.skipped(message.number)
        self._perform(self._hand.assigned(message.number, Assignment.read(message), now), now)

    def _acknowledged(self, ack: worker_pb2.CompletionAck) -> None:
        attempt = Attempt.read(ack.run)
        if ack.answer == worker_pb2.CompletionAck.STALE:
            _log.warning("The report of an attempt was refused as stale %s", _named(attempt))
        self._hand.acknowledged(attempt)

    def _renewed(self, ack: worker_pb2.HeartbeatAck, now: float) -> None:
        self._link.proved(without_database=ack.without_database)
        self._trouble = ""
        if self._vouched and not ack.without_database:
            self._vouched = False
            _log.info("The dispatcher has the database again")
        self._perform(self._hand.renewed(ack.sequence, Renewal.read(ack), now), now)

    def _answered(self, answers: Answers, now: float) -> None:
        """Every dispatcher was asked whether it has the database."""
        if self._hand.lease.vouched(answers.asked, answers.without, now) and not self._vouched:
            self._vouched = True
            _log.warning(
                "No dispatcher has the database: going on, because nobody can give the runs away dispatchers=%d",
                len(answers.without),
            )

    def _perform(self, actions: Iterable[Action], now: float) -> None:
        for action in actions:
            if isinstance(action, Start):
                self._start(action.assignment)
            elif isinstance(action, Stop):
                _log.warning("Run asked to stop: %s %s", action.cause, _named(action.attempt))
                self._workforce.stop(action.attempt, now)
            elif isinstance(action, Accepted):
                accepted = worker_pb2.Accepted(run=action.attempt.to_ref())
                self._send(worker_pb2.FromWorker(accepted=accepted), now)
            elif isinstance(action, Completed):
                self._send(worker_pb2.FromWorker(completed=action.message), now)

    def _start(self, assignment: Assignment) -> None:
        run = RunContext(assignment, datetime.now(timezone.utc), self._hand.lease.terms.kill_grace)
        _log.debug("Run started job.name=%s %s", run.job_name, _named(assignment.attempt))
        self._workforce.start(run)

    def _work_ended(self, ended: WorkEnded, now: float) -> None:
        _log.debug("Run ended: %s %s run.stopped=%s", ended.report.end.value, _named(ended.attempt), ended.stopped)
        self._finished += 1
        last = self._workforce.forget(ended.attempt)
        if last is not None and self._link.has_room():
            self._send(worker_pb2.FromWorker(live=last), now)
        self._perform(self._hand.ended(ended.attempt, ended.report, ended.stopped, now), now)

    def _keep_time(self, now: float) -> None:
        """What is due by the clock: dialling, heartbeats, a silent connection, the stages of a drain."""
        if self._link.is_late(now):
            self._give_up_link(f"no Welcome within {CONNECT_LIMIT:g} s", now)
        if self._link.is_due(now):
            self._link.connect(self._hello(now), now)
        if self._link.is_up() and self._heartbeat_at <= now:
            self._heartbeat(now)
        if self._show_at <= now:
            self._show_at = now + _SHOW_EVERY
            self._show(now)
        if not self._asker.is_asking() and (question := self._hand.question(now)) is not None:
            self._asker.ask(question)
        if self._drain is not None and not self._drain.stopped and self._drain.stop_at <= now:
            self._drain.stopped = True
            self._perform(self._hand.stop_all(StopCause(Cause.DRAINED), now), now)

    def _show(self, now: float) -> None:
        """Shows what the running work is at; what finds no room is shown with the next change."""
        if not self._link.has_room():
            return
        for live in self._workforce.live():
            self._send(worker_pb2.FromWorker(live=live), now)

    def _hello(self, now: float) -> worker_pb2.Hello:
        return worker_pb2.Hello(
            name=self._identity.name,
            queues=self._identity.queues,
            slots=self._identity.slots,
            labels=self._identity.labels,
            version=self._identity.version,
            session_id=self._session_id,
            in_hand=self._hand.in_hand(),
            unheard=self._hand.unheard(now),
        )

    def _heartbeat(self, now: float) -> None:
        interval = self._hand.lease.terms.heartbeat_interval
        silence = self._hand.lease.silence(now)
        if silence > 1.5 * interval:
            self._give_up_link(f"{silence:.1f} s without an answer to a heartbeat", now)
            return
        self._heartbeat_at = now + interval
        heartbeat, again = self._hand.heartbeat(now)
        self._send(worker_pb2.FromWorker(heartbeat=heartbeat), now)
        self._perform(again, now)

    def _start_drain(self, now: float) -> None:
        if self._drain is not None:
            return
        last = self._hand.lease.terms.kill_grace + _LAST_REPORTS
        self._drain = _Drain(stop_at=now + max(0.0, self._drain_limit - last), end_at=now + self._drain_limit)
        _log.info("Draining: finishing the runs in hand runs.in_hand=%d", len(self._hand))
        self._send(worker_pb2.FromWorker(drain=worker_pb2.Drain()), now)

    def _is_done(self, now: float) -> bool:
        if self._drain is None:
            return False
        left = len(self._hand)
        if left and self._drain.end_at <= now:
            _log.warning("Ending with runs in hand: the drain took too long runs.in_hand=%d", left)
        return not left or self._drain.end_at <= now

    def _send(self, message: worker_pb2.FromWorker, now: float) -> None:
        if not self._link.send(message):
            self._give_up_link("the connection takes no more messages", now)

    def _give_up_link(self, why: str, now: float) -> None:
        self._link.down(now)
        self._lost(why, logging.WARNING)

    def _sent_on(self, now: float) -> None:
        self._link.sent_on(now)
        self._lost("the dispatcher asked this worker to connect to another", logging.INFO)

    def _lost(self, why: str, new: int) -> None:
        """Logged, at level `new`, once for each kind of trouble, not once for each try."""
        self._hand.lease.disconnected()
        level = logging.DEBUG if self._trouble == why else new
        self._trouble = why
        _log.log(level, "No dispatcher: trying the next error=%s runs.in_hand=%d", why, len(self._hand))


def _named(attempt: Attempt) -> str:
    """The attempt as fields of a log line."""
    run = attempt.run
    instant = datetime.fromtimestamp(run.seconds, timezone.utc).isoformat().replace("+00:00", "Z")
    return f"job.id={run.job_id} run.scheduled_for={instant} run.attempt={attempt.number} run.token={attempt.token}"
