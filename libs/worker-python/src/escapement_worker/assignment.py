"""What a dispatcher sends, checked: an attempt's identity, and an assignment."""

import uuid
from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp

from escapement_worker._proto import job_pb2, worker_pb2

MAX_RUNTIME_DEFAULT = 3600.0
"""Seconds that an attempt may run when its assignment doesn't say."""

_TOKEN_MAX = 2**63 - 1


class InvalidAttemptError(ValueError):
    """A message that names no attempt."""


@dataclass(frozen=True, order=True)
class RunKey:
    """A run: the job's id and the scheduled instant, to the nanosecond."""

    job_id: str
    seconds: int
    nanos: int


@dataclass(frozen=True, order=True)
class Attempt:
    """One attempt of one run; ordered by run, then from older to newer."""

    run: RunKey
    number: int
    token: int

    @staticmethod
    def read(ref: worker_pb2.RunRef) -> "Attempt":
        """The attempt that a message names; InvalidAttemptError when it names none."""
        try:
            job_id = str(uuid.UUID(ref.job_id))
        except ValueError:
            raise InvalidAttemptError(f"run.jobId: {ref.job_id!r} is no uuid") from None
        if not ref.HasField("scheduled_for"):
            raise InvalidAttemptError("run.scheduledFor: is missing")
        if ref.attempt < 1:
            raise InvalidAttemptError(f"run.attempt: {ref.attempt}: attempts count from 1")
        token = int(ref.token) if ref.token.isascii() and ref.token.isdecimal() else 0
        if not 0 < token <= _TOKEN_MAX:
            raise InvalidAttemptError(f"run.token: {ref.token!r} is not a fencing token")
        run = RunKey(job_id, ref.scheduled_for.seconds, ref.scheduled_for.nanos)
        return Attempt(run, ref.attempt, token)

    def to_ref(self) -> worker_pb2.RunRef:
        """The attempt as a message."""
        return worker_pb2.RunRef(
            job_id=self.run.job_id,
            scheduled_for=Timestamp(seconds=self.run.seconds, nanos=self.run.nanos),
            attempt=self.number,
            token=str(self.token),
        )


@dataclass(frozen=True)
class Assignment:
    """A run for this worker."""

    attempt: Attempt
    job_name: str
    origin: str
    queue: str
    idempotency_key: str
    guard_key: str
    max_runtime: float
    traceparent: str
    work: job_pb2.Run

    @staticmethod
    def read(message: worker_pb2.Assignment) -> "Assignment":
        """The assignment; InvalidAttemptError when it names no attempt."""
        limit = message.max_runtime
        return Assignment(
            attempt=Attempt.read(message.run),
            job_name=message.job_name,
            origin=message.origin,
            queue=message.queue,
            idempotency_key=message.idempotency_key,
            guard_key=message.guard_key,
            max_runtime=(limit.seconds + limit.nanos / 1e9 if message.HasField("max_runtime") else MAX_RUNTIME_DEFAULT),
            traceparent=message.traceparent,
            work=message.work,
        )
