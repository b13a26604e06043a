"""What work reports when it has ended, and its form on the wire."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from escapement_worker._proto import worker_pb2
from escapement_worker.assignment import Attempt

OUTPUT_MAX_BYTES = 4096
"""The most bytes of output that the ledger keeps: the last ones."""

ERROR_MAX_BYTES = 2048
"""The most bytes of an error text that the ledger keeps."""

Outcome = worker_pb2.Completed.Outcome


class End(enum.Enum):
    """How work ended by itself. What was stopped is reported as stopped, whatever it says here."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOT_STARTED = "not started"


_OUTCOMES = {
    End.SUCCEEDED: Outcome.SUCCEEDED,
    End.FAILED: Outcome.FAILED,
    End.NOT_STARTED: Outcome.NOT_STARTED,
}


@dataclass(frozen=True)
class Report:
    """How an attempt's work ended, what it printed, and what went wrong."""

    end: End
    error: str = ""
    output: bytes = b""
    output_truncated: bool = False


class Cause(enum.Enum):
    """Why a run in hand is stopped before its work has ended; the value is for people."""

    CANCELLED = "cancelled"
    TIMED_OUT = "stopped after its maximum runtime"
    LEASE_EXPIRED = "stopped by its worker, whose lease could not be renewed"
    SESSION_GONE = "stopped by its worker, whose session had ended"
    NEWER_ATTEMPT = "stopped by its worker, which got a newer attempt of the run"
    DRAINED = "stopped by its worker, which ended before the run did"


@dataclass(frozen=True)
class StopCause:
    """A cause, with the dispatcher's reason of a cancellation."""

    cause: Cause
    reason: str = ""

    def __str__(self) -> str:
        """For people."""
        return f"{self.cause.value}: {self.reason}" if self.reason else self.cause.value

    @property
    def outcome(self) -> worker_pb2.Completed.Outcome:
        """What is reported of the attempt."""
        if self.cause is Cause.CANCELLED:
            return Outcome.CANCELLED
        return Outcome.TIMED_OUT if self.cause is Cause.TIMED_OUT else Outcome.ABANDONED


def completed(attempt: Attempt, cause: StopCause | None, report: Report) -> worker_pb2.Completed:
    """The message for an attempt that ended by itself, or was stopped for `cause`."""
    if cause is None:
        outcome, error = _OUTCOMES[report.end], report.error
    else:
        outcome, error = cause.outcome, f"{cause} ({report.error})" if report.error else str(cause)
    return worker_pb2.Completed(
        run=attempt.to_ref(),
        outcome=outcome,
        output=report.output,
        output_truncated=report.output_truncated,
        error=shortened(error),
    )


def shortened(text: str) -> str:
    """An error text within its limit, cut between characters; what is no text is escaped."""
    return text.encode("utf-8", "backslashreplace")[:ERROR_MAX_BYTES].decode("utf-8", "ignore")


def chain(error: BaseException) -> str:
    """An exception with all its causes, in one line."""
    texts: list[str] = []
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        texts.append(f"{type(link).__name__}: {link}" if str(link) else type(link).__name__)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return ": ".join(texts)


class Output:
    """The end of what a run has said: the last bytes, up to the ledger's limit. Not for several threads at once."""

    def __init__(self) -> None:
        """Empty."""
        self._tail = bytearray()
        self.truncated = False
        self.total = 0

    def add(self, text: str | bytes) -> None:
        """Adds to the end."""
        added = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
        self._tail += added
        self.total += len(added)
        if len(self._tail) > OUTPUT_MAX_BYTES:
            self.truncated = True
            del self._tail[:-OUTPUT_MAX_BYTES]

    @property
    def tail(self) -> bytes:
        """What is kept."""
        return bytes(self._tail)
