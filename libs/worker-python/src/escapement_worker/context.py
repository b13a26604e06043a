"""What work is told about its run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from escapement_worker import payload
from escapement_worker._proto import worker_pb2
from escapement_worker.assignment import Assignment, Attempt
from escapement_worker.errors import PayloadError
from escapement_worker.report import Output

T = TypeVar("T")

NOTE_MAX_CHARS = 256
"""The most characters of a note that are shown."""


class Cancellation:
    """Set when the work must stop: it was cancelled, its time is over, the worker lost its lease, or ends.

    Whatever the work reports after that, it counts as stopped. Work that has not ended within the run's `kill_grace`
    is given up: a coroutine is cancelled, a thread can't be and goes on without its lease.
    """

    def __init__(self) -> None:
        """Not set."""
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        """True when the work must stop."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits in a thread, at most `timeout` seconds; True when the work must stop."""
        return self._event.wait(timeout)

    async def wait_async(self) -> None:
        """Waits in a coroutine until the work must stop."""
        loop, reached = asyncio.get_running_loop(), asyncio.Event()

        def listener() -> None:
            with contextlib.suppress(RuntimeError):  # The loop was closed: nobody waits any more.
                loop.call_soon_threadsafe(reached.set)

        with self._lock:
            if self._event.is_set():
                return
            self._listeners.append(listener)
        try:
            await reached.wait()
        finally:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

    def _set(self) -> None:
        with self._lock:
            self._event.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()


class RunContext:
    """One attempt of one run, as its work sees it."""

    def __init__(self, assignment: Assignment, accepted_at: datetime, kill_grace: float) -> None:
        """Of an assignment that was accepted at `accepted_at`, an instant of the wall clock."""
        self._assignment = assignment
        self._accepted_at = accepted_at
        self._lock = threading.Lock()
        self._output = Output()
        self._fraction: float | None = None
        self._note = ""
        self._changed = False
        self._shown = False
        self.cancelled = Cancellation()
        self.kill_grace = kill_grace

    @property
    def job_name(self) -> str:
        """The job's name."""
        return self._assignment.job_name

    @property
    def run_name(self) -> str:
        """The run's name for people and logs: `invoices@2026-11-29T09:00:00Z`."""
        run = self._assignment.attempt.run
        instant = datetime.fromtimestamp(run.seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        digits = f"{run.nanos:09d}"
        while digits.endswith("000"):
            digits = digits[:-3]
        return f"{self.job_name}@{instant}{f'.{digits}' if digits else ''}Z"

    @property
    def job_id(self) -> str:
        """The job's id, which stays when the job is renamed."""
        return self._assignment.attempt.run.job_id

    @property
    def scheduled_for(self) -> datetime:
        """The instant that the schedule names, in UTC; the same for every attempt."""
        run = self._assignment.attempt.run
        whole = datetime.fromtimestamp(run.seconds, timezone.utc)
        return whole + timedelta(microseconds=run.nanos // 1000)

    @property
    def attempt(self) -> int:
        """Counted from 1."""
        return self._assignment.attempt.number

    @property
    def origin(self) -> str:
        """Where the run came from: `SCHEDULE`, `CATCH_UP`, `BACKFILL` or `MANUAL`."""
        return self._assignment.origin

    @property
    def queue(self) -> str:
        """The queue that it came through."""
        return self._assignment.queue

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of the run: a downstream that remembers it applies the effect once."""
        return self._assignment.idempotency_key

    @property
    def fencing_token(self) -> int:
        """Higher for each newer lease of the guard key: a downstream that compares refuses what an older one writes.

        Below 2**63, and so beyond what JSON numbers hold exactly: send it as text, `str(run.fencing_token)`.
        """
        return self._assignment.attempt.token

    @property
    def guard_key(self) -> str:
        """What tokens are compared under: the job when its runs exclude each other, else the run."""
        return self._assignment.guard_key

    @property
    def max_runtime(self) -> timedelta:
        """How long the attempt may run, from its acceptance."""
        return timedelta(seconds=self._assignment.max_runtime)

    @property
    def deadline(self) -> datetime:
        """When `max_runtime` will be over, on this machine's wall clock, in UTC.

        For showing and passing on: the stop itself follows a clock that nobody sets.
        """
        try:
            return self._accepted_at + self.max_runtime
        except OverflowError:
            return datetime.max.replace(tzinfo=timezone.utc)

    @property
    def traceparent(self) -> str | None:
        """W3C trace context, if the run has one."""
        return self._assignment.traceparent or None

    @property
    def payload(self) -> Any:
        """The handler's payload, parsed anew with each use; an empty one is None. PayloadError when it is no JSON."""
        text = self._assignment.work.handler.payload
        try:
            return json.loads(text) if text else None
        except json.JSONDecodeError as error:
            raise PayloadError(f"cannot read the payload of {self.run_name}: {error}") from error

    def payload_as(self, expected: Callable[..., T]) -> T:
        """The handler's payload as a dataclass, a TypedDict, a plain type, or what a function makes of the parsed JSON.

        PayloadError, which names the field, when it is not that. A handler that needs nothing else for telling whether
        it can start is better registered with `Worker.typed_handler`.
        """
        value = self.payload
        try:
            return payload.read(expected, value)
        except payload.Misfit as misfit:
            at = f", at {misfit.field}" if misfit.field else ""
            text = f"the payload of {self.run_name} does not fit {payload.type_name(expected)}{at}: {misfit}"
            raise PayloadError(text, misfit.field or None) from misfit

    def log(self, *values: object) -> None:
        """Adds a line to the run's output, of which the ledger keeps the last 4 KiB. From any thread.

        Whoever looks on (`escapement logs -f JOB@TIME`) sees it within about two seconds.
        """
        self._add(" ".join(str(value) for value in values) + "\n")

    def progress(self, fraction: float, note: str = "") -> None:
        """Shows how far the run is, 0 to 1, and what it is at. From any thread; the last one counts."""
        with self._lock:
            self._fraction = min(1.0, max(0.0, fraction))
            self._note = note.replace("\0", "")[:NOTE_MAX_CHARS]
            self._changed = True

    def _add(self, text: str | bytes) -> None:
        with self._lock:
            self._output.add(text)
            self._changed = True

    def _live(self, *, last: bool = False) -> worker_pb2.Live | None:
        """What is to be shown, if it has changed; at the end only of what was shown before: the rest is reported."""
        with self._lock:
            if not self._changed or (last and not self._shown):
                return None
            self._changed, self._shown = False, True
            tail = self._output.tail
            return worker_pb2.Live(
                run=self._identity().to_ref(),
                offset=self._output.total - len(tail),
                tail=tail,
                fraction=self._fraction,
                note=self._note,
            )

    def _said(self) -> tuple[bytes, bool]:
        with self._lock:
            return self._output.tail, self._output.truncated

    def _identity(self) -> Attempt:
        return self._assignment.attempt
