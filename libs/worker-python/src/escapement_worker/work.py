"""The program's handlers, and each attempt's work from its start to its report, whatever the work does.

Owns the threads of synchronous handlers and the event loop of asynchronous ones; none is the thread that keeps the
session, so that a busy handler delays no heartbeat. Invariant: each attempt that was started is reported once, when
its work has ended or was given up after its grace; the slot is never lost. Deliberately doesn't know why work is
asked to stop: the table in `hand` does.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from escapement_worker._proto import worker_pb2
from escapement_worker.assignment import Attempt
from escapement_worker.context import RunContext
from escapement_worker.errors import NotStartedError, PayloadError
from escapement_worker.report import End, Report, chain

Handler = Callable[[RunContext], object] | Callable[[RunContext], Awaitable[object]]
"""Does the work of runs: a function, which gets a thread for each run, or a coroutine function."""

P = TypeVar("P")
TypedHandler = Callable[[RunContext, P], object]
"""The same for work that takes its payload as its second argument; may be a coroutine function too."""

_GRACE_SLACK = 0.25
"""Seconds that work gets beyond the grace, for reporting what it ended."""
_CANCEL_LIMIT = 1.0
"""Seconds that a cancelled coroutine gets for letting go."""

_log = logging.getLogger("escapement_worker")


@dataclass(frozen=True)
class WorkEnded:
    """How a piece of work ended; `stopped` when it had been asked to stop before."""

    attempt: Attempt
    report: Report
    stopped: bool


class _Piece:
    """One attempt's work. Reports once, whoever comes first: the work, or the one who gives it up."""

    def __init__(self, run: RunContext, tell: Callable[[WorkEnded], None]) -> None:
        self.run = run
        self.task: asyncio.Task[None] | None = None
        self.give_up_at: float | None = None
        self.was_cancelled = False
        self._tell = tell
        self._lock = threading.Lock()
        self._reported = False

    def report(self, end: End, error: str = "") -> None:
        with self._lock:
            if self._reported:
                return
            self._reported = True
        output, truncated = self.run._said()
        report = Report(end, error, output, truncated)
        self._tell(WorkEnded(self.run._identity(), report, self.run.cancelled.is_set()))

    @property
    def reported(self) -> bool:
        return self._reported

    def succeeded(self, result: object) -> None:
        if inspect.iscoroutine(result):
            result.close()
            self.report(End.FAILED, "the handler returned a coroutine that nobody awaits: declare it with `async def`")
            return
        if result is not None:
            self.run._add(result if isinstance(result, bytes) else str(result))
        self.report(End.SUCCEEDED)

    def failed(self, error: BaseException) -> None:
        if isinstance(error, NotStartedError):
            self.report(End.NOT_STARTED, str(error))
            return
        if not self.run.cancelled.is_set():
            _log.warning("The handler failed run=%s attempt=%s", self.run.run_name, self.run.attempt, exc_info=error)
        self.report(End.FAILED, chain(error))


class Workforce:
    """Who does the work. All methods are for the thread that keeps the session."""

    def __init__(self, handlers: dict[str, Handler], tell: Callable[[WorkEnded], None]) -> None:
        """`tell` is called from any thread."""
        self._handlers = handlers
        self._tell = tell
        self._pieces: dict[Attempt, _Piece] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: threading.Thread | None = None

    def start(self, run: RunContext) -> None:
        """Starts an attempt's work, or reports why it can't be."""
        piece = _Piece(run, self._tell)
        self._pieces[run._identity()] = piece
        handler = self._handlers.get(run._assignment.work.handler.name)
        if run._assignment.work.WhichOneof("kind") != "handler" or handler is None:
            piece.report(End.NOT_STARTED, self._refusal(run))
        elif is_async(handler):
            loop = self._running_loop()
            loop.call_soon_threadsafe(_begin, loop, handler, piece)
        else:
            name = f"run {run.run_name} attempt {run.attempt}"
            threading.Thread(target=_call, args=(handler, piece), name=name, daemon=True).start()

    def stop(self, attempt: Attempt, now: float) -> None:
        """Asks an attempt's work to stop; from here on its grace counts."""
        piece = self._pieces.get(attempt)
        if piece is not None:
            piece.give_up_at = now + piece.run.kill_grace + _GRACE_SLACK
            piece.run.cancelled._set()

    def passed(self, now: float) -> None:
        """Time has passed: what had to stop and did not is cancelled if it can be, then given up."""
        for piece in list(self._pieces.values()):
            if piece.give_up_at is None or piece.give_up_at > now:
                continue
            limit = piece.run.kill_grace + _GRACE_SLACK
            if piece.task is not None and self._loop is not None and not piece.was_cancelled:
                piece.was_cancelled = True
                piece.give_up_at = now + _CANCEL_LIMIT
                self._loop.call_soon_threadsafe(piece.task.cancel)
            else:
                piece.report(End.FAILED, f"it had not stopped after {limit:g} s and was given up")

    def wakes_at(self) -> float | None:
        """When `passed` has something to do next."""
        moments = (piece.give_up_at for piece in self._pieces.values())
        return min((moment for moment in moments if moment is not None), default=None)

    def forget(self, attempt: Attempt) -> worker_pb2.Live | None:
        """An attempt's report has arrived; the last that is to be shown of it."""
        piece = self._pieces.pop(attempt, None)
        return None if piece is None else piece.run._live(last=True)

    def live(self) -> list[worker_pb2.Live]:
        """What is to be shown of the work that goes on, where it has changed."""
        shown = (piece.run._live() for piece in self._pieces.values() if not piece.reported)
        return [live for live in shown if live is not None]

    def close(self) -> None:
        """Ends the event loop; what still runs in it is dropped."""
        if self._loop is not None and self._loop_thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop_thread.join(_CANCEL_LIMIT)

    def _refusal(self, run: RunContext) -> str:
        kind = run._assignment.work.WhichOneof("kind")
        if kind == "handler":
            names = ", ".join(sorted(self._handlers))
            return f"this worker has no handler {run._assignment.work.handler.name!r}; it has: {names}"
        if kind == "exec":
            return "this worker does not start processes: give the job a queue of agents"
        if kind == "http":
            return "this worker makes no HTTP calls: give the job a queue of agents"
        return "this worker does not know the kind of work: it is older than the job's definition"

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop_thread = threading.Thread(target=_serve, args=(self._loop,), name="handlers", daemon=True)
            self._loop_thread.start()
        return self._loop


def typed(handler: TypedHandler[P], expected: Callable[..., P]) -> Handler:
    """The handler as one that reads its payload first, and is not started when that does not fit."""

    def read(run: RunContext) -> P:
        try:
            return run.payload_as(expected)
        except PayloadError as error:
            raise NotStartedError(str(error)) from error

    def call(run: RunContext) -> object:
        return handler(run, read(run))

    async def call_async(run: RunContext) -> object:
        result: Any = handler(run, read(run))
        return await result

    return call_async if is_async(handler) else call


def is_async(handler: Callable[..., object]) -> bool:
    """True for a coroutine function, and for an object whose call is one."""
    call = type(handler).__call__
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _call(handler: Handler, piece: _Piece) -> None:
    try:
        result = handler(piece.run)
    except BaseException as error:  # A handler's SystemExit ends the handler, not the worker.
        piece.failed(error)
    else:
        piece.succeeded(result)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Runs a loop until it is stopped; then cancels what is left in it."""
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
    loop.close()


def _begin(loop: asyncio.AbstractEventLoop, handler: Callable[[RunContext], Any], piece: _Piece) -> None:
    if not piece.reported:
        piece.task = loop.create_task(_await(handler, piece))


async def _await(handler: Callable[[RunContext], Any], piece: _Piece) -> None:
    try:
        result = await handler(piece.run)
    except BaseException as error:
        if piece.was_cancelled:
            limit = piece.run.kill_grace + _GRACE_SLACK
            piece.report(End.FAILED, f"it had not stopped after {limit:g} s and was cancelled")
        piece.failed(error)
    else:
        piece.succeeded(result)
