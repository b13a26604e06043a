"""A dispatcher that says what a test tells it to."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from escapement_worker._proto import STANDING_METHOD, WORK_METHOD, job_pb2, worker_pb2

LIMIT = 20.0
JOB = "00000000-0000-0000-0000-000000000001"
T = TypeVar("T")


def run(second: int, attempt: int) -> worker_pb2.RunRef:
    return worker_pb2.RunRef(
        job_id=JOB, scheduled_for=Timestamp(seconds=second), attempt=attempt, token=str(10 * second + attempt)
    )


def handler(name: str, payload: str = "") -> job_pb2.Run:
    return job_pb2.Run(handler=job_pb2.Handler(name=name, payload=payload))


class Session:
    """One connection of a worker, from the dispatcher's side. Heartbeats are answered while `renews` is true."""

    def __init__(self, messages: Iterator[worker_pb2.FromWorker], authorization: str) -> None:
        self.hello = next(messages).hello
        self.authorization = authorization
        self.renews = True
        # Since when it is without the database, and who is there.
        self.without: tuple[float, list[worker_pb2.DispatcherRef]] | None = None
        self._heard: queue.SimpleQueue[worker_pb2.FromWorker] = queue.SimpleQueue()
        self.said: queue.SimpleQueue[worker_pb2.ToWorker | None] = queue.SimpleQueue()
        self._messages = messages

    def hear(self) -> None:
        try:
            for message in self._messages:
                if message.HasField("heartbeat") and self.renews:
                    ack = worker_pb2.HeartbeatAck(sequence=message.heartbeat.sequence, renewal_age=Duration())
                    if self.without is not None:
                        since, dispatchers = self.without
                        ack.renewal_age.FromNanoseconds(int((time.monotonic() - since) * 1e9))
                        ack.without_database = True
                        ack.list_age.FromNanoseconds(0)
                        ack.dispatchers.extend(dispatchers)
                    self.say(heartbeat_ack=ack)
                self._heard.put(message)
        except grpc.RpcError:
            pass
        self.said.put(None)

    def say(self, **message: object) -> None:
        self.said.put(worker_pb2.ToWorker(**message))  # type: ignore[arg-type]

    def hang_up(self) -> None:
        self.said.put(None)

    def assign(self, number: int, ref: worker_pb2.RunRef, work: job_pb2.Run, max_runtime: float = 3600) -> None:
        limit = Duration()
        limit.FromNanoseconds(int(max_runtime * 1e9))
        assignment = worker_pb2.Assignment(number=number, run=ref, job_name="invoices", max_runtime=limit, work=work)
        self.say(assignment=assignment)

    def acknowledge(self, ref: worker_pb2.RunRef) -> None:
        self.say(completion_ack=worker_pb2.CompletionAck(run=ref, answer=worker_pb2.CompletionAck.RECORDED))

    def expect(self, what: str, pick: Callable[[worker_pb2.FromWorker], T | None]) -> T:
        """The first message that `pick` takes; what comes before is dropped."""
        until = time.monotonic() + LIMIT
        while (left := until - time.monotonic()) > 0:
            try:
                picked = pick(self._heard.get(timeout=left))
            except queue.Empty:
                break
            if picked is not None:
                return picked
        raise AssertionError(f"no {what} within {LIMIT} s")

    def accepted(self) -> worker_pb2.RunRef:
        return self.expect("Accepted", lambda m: m.accepted.run if m.HasField("accepted") else None)

    def completed(self) -> worker_pb2.Completed:
        return self.expect("Completed", lambda m: m.completed if m.HasField("completed") else None)

    def in_hand(self, runs: list[worker_pb2.RunRef]) -> None:
        self.expect(
            f"heartbeat with {len(runs)} runs",
            lambda m: True if m.HasField("heartbeat") and list(m.heartbeat.in_hand) == runs else None,
        )


class FakeDispatcher:
    """Listens on a free port of the loopback."""

    def __init__(self) -> None:
        self._sessions: queue.SimpleQueue[Session] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(16)
        self._server = grpc.server(self._pool)
        work = grpc.stream_stream_rpc_method_handler(
            self._work,
            request_deserializer=worker_pb2.FromWorker.FromString,
            response_serializer=worker_pb2.ToWorker.SerializeToString,
        )
        standing = grpc.unary_unary_rpc_method_handler(
            self._standing,
            request_deserializer=worker_pb2.StandingRequest.FromString,
            response_serializer=worker_pb2.StandingResponse.SerializeToString,
        )
        self.standing: worker_pb2.StandingResponse | None = None
        _, service, method = WORK_METHOD.split("/")
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            method: work,
            STANDING_METHOD.rpartition("/")[2]: standing,
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        self.address = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _work(
        self, messages: Iterator[worker_pb2.FromWorker], context: grpc.ServicerContext
    ) -> Iterator[worker_pb2.ToWorker]:
        metadata = {key: str(value) for key, value in context.invocation_metadata()}
        session = Session(messages, metadata.get("authorization", ""))
        self._pool.submit(session.hear)
        self._sessions.put(session)
        while (message := session.said.get()) is not None:
            yield message

    def _standing(self, _: worker_pb2.StandingRequest, context: grpc.ServicerContext) -> worker_pb2.StandingResponse:
        if self.standing is None or "authorization" not in dict(context.invocation_metadata()):
            context.abort(grpc.StatusCode.UNAVAILABLE, "says nothing")
        assert self.standing is not None
        return self.standing

    def accept(self) -> Session:
        return self._sessions.get(timeout=LIMIT)

    def welcome(self, session_id: str, *, resumed: bool = False, self_deadline: float = 9.0) -> Session:
        session = self.accept()
        deadline, interval, grace = Duration(), Duration(), Duration()
        deadline.FromNanoseconds(int(self_deadline * 1e9))
        interval.FromMilliseconds(100)
        grace.FromMilliseconds(200)
        session.say(
            welcome=worker_pb2.Welcome(
                session_id=session_id,
                connection=1,
                resumed=resumed,
                heartbeat_interval=interval,
                self_deadline=deadline,
                kill_grace=grace,
            )
        )
        return session

    def waits(self) -> bool:
        """True when a connection waits to be accepted."""
        return not self._sessions.empty()

    def stop(self) -> None:
        self._server.stop(grace=0).wait()
