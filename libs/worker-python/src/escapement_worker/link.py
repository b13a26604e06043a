"""The connection to one dispatcher at a time, and the way to the next one.

Owns dialling, backoff with jitter, and the end of a connection; whose turn it is is decided in `Ring`. What it hears
goes to `tell` with the connection's number, from a thread of its own; of an earlier connection nothing counts any more.
Nothing here waits: a connection that takes no more messages is broken, because the one who sends also keeps the
deadlines.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import grpc

from escapement_worker._proto import WORK_METHOD, worker_pb2
from escapement_worker.ring import Ring

CONNECT_LIMIT = 3.0
"""Seconds for dialling, Hello and Welcome together."""
_GOODBYE_LIMIT = 1.0
_BACKOFF_MIN = 0.05
_BACKOFF_MAX = 1.0
_OPTIONS = [
    # A channel dials for itself: another one's backoff doesn't count.
    ("grpc.use_local_subchannel_pool", 1),
    # Dispatchers are on our side of any proxy that the environment names.
    ("grpc.enable_http_proxy", 0),
    # Half-open connections are noticed after both together, in time to resume elsewhere before the lease ends.
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]


@dataclass(frozen=True)
class Tls:
    """Whom dispatchers must be certified by, and what is shown to those that ask; all in PEM."""

    ca: bytes
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Dispatcher:
    """Where to dial; `tls` when it is by TLS."""

    address: str
    target: str
    tls: Tls | None


@dataclass(frozen=True)
class Heard:
    """A message of a connection."""

    connection: int
    message: worker_pb2.ToWorker


@dataclass(frozen=True)
class Closed:
    """A connection, or the attempt to get one, has ended."""

    connection: int
    why: str


class _Outbox:
    """Messages on their way out, as the iterator that gRPC sends from."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._messages: deque[worker_pb2.FromWorker] = deque()
        self._ended = False
        self._changed = threading.Condition()

    def put(self, message: worker_pb2.FromWorker) -> bool:
        """False when there is no room."""
        with self._changed:
            if len(self._messages) >= self._capacity:
                return False
            self._messages.append(message)
            self._changed.notify()
            return True

    def has_room(self) -> bool:
        """True while less than half of it is taken."""
        with self._changed:
            return len(self._messages) < self._capacity // 2

    def end(self) -> None:
        """After what is in it, nothing more comes."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def __iter__(self) -> Iterator[worker_pb2.FromWorker]:
        return self

    def __next__(self) -> worker_pb2.FromWorker:
        with self._changed:
            while not self._messages and not self._ended:
                self._changed.wait()
            if self._messages:
                return self._messages.popleft()
            raise StopIteration


class _Call(Protocol):
    """What is used of gRPC's side of a stream."""

    def __iter__(self) -> Iterator[worker_pb2.ToWorker]: ...

    def cancel(self) -> object: ...


@dataclass
class _Connection:
    outbox: _Outbox
    asked: float
    reader: threading.Thread | None = None
    call: _Call | None = None
    welcomed: bool = False


class Link:
    """See the module. All methods are for the thread that keeps the session."""

    def __init__(
        self,
        dispatchers: Sequence[Dispatcher],
        token: str,
        capacity: int,
        tell: Callable[[Heard | Closed], None],
    ) -> None:
        """Not connected yet, and due. Workers begin at different dispatchers."""
        self._dispatchers = dispatchers
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._capacity = capacity
        self._tell = tell
        self._ring = Ring(len(dispatchers), random.randrange(len(dispatchers)))  # noqa: S311
        self._backoff = _BACKOFF_MIN
        self._number = 0
        self._due_at: float | None = None
        self._connection: _Connection | None = None

    @property
    def address(self) -> str:
        """The dispatcher that is, or will next be, dialled."""
        return self._dispatchers[self._ring.current].address

    def is_up(self) -> bool:
        """True with a Welcome and no end since."""
        return self._connection is not None and self._connection.welcomed

    def is_due(self, now: float) -> bool:
        """True when it is time to connect."""
        return self._connection is None and (self._due_at is None or self._due_at <= now)

    def is_late(self, now: float) -> bool:
        """True when a dispatcher was dialled and has not said Welcome in time."""
        connection = self._connection
        return connection is not None and not connection.welcomed and now - connection.asked >= CONNECT_LIMIT

    def wakes_at(self) -> float | None:
        """When it will be due, or late."""
        if self._connection is None:
            return self._due_at
        return None if self._connection.welcomed else self._connection.asked + CONNECT_LIMIT

    def is_current(self, event: Heard | Closed) -> bool:
        """False for what an earlier connection said."""
        return self._connection is not None and event.connection == self._number

    def connect(self, hello: worker_pb2.Hello, now: float) -> None:
        """Dials the current dispatcher and says Hello."""
        self._number += 1
        connection = _Connection(_Outbox(self._capacity), asked=now)
        connection.outbox.put(worker_pb2.FromWorker(hello=hello))
        dispatcher = self._dispatchers[self._ring.current]
        channel = channel_to(dispatcher)
        call = channel.stream_stream(
            WORK_METHOD,
            request_serializer=worker_pb2.FromWorker.SerializeToString,
            response_deserializer=worker_pb2.ToWorker.FromString,
        )(connection.outbox, metadata=self._metadata)
        connection.call = call
        arguments = (channel, call, self._number, self._tell)
        connection.reader = threading.Thread(target=_read, args=arguments, name="dispatcher", daemon=True)
        self._connection = connection
        connection.reader.start()

    def welcomed(self) -> float | None:
        """The dispatcher has said Welcome; the moment before the Hello, or None when it had been said before."""
        connection = self._connection
        if connection is None or connection.welcomed:
            return None
        connection.welcomed = True
        return connection.asked

    def send(self, message: worker_pb2.FromWorker) -> bool:
        """Sends a message if there is a connection. What is lost with it is said again on the next.

        False when the connection takes no more messages.
        """
        connection = self._connection
        if connection is None or not connection.welcomed:
            return True
        return connection.outbox.put(message)

    def has_room(self) -> bool:
        """True while the connection takes more than it is sure to need: what can be left out is sent only then."""
        connection = self._connection
        return connection is not None and connection.welcomed and connection.outbox.has_room()

    def proved(self, *, without_database: bool) -> None:
        """The dispatcher has answered a heartbeat: the next backoff is short again."""
        self._backoff = _BACKOFF_MIN
        self._ring.answered(without_database=without_database)

    def down(self, now: float) -> None:
        """Gives the connection up, and turns to the next dispatcher after a backoff."""
        self._end(now)
        self._ring.failed()

    def sent_on(self, now: float) -> None:
        """The same, because the dispatcher asks for it."""
        self._end(now)
        self._ring.sent_on()

    def _end(self, now: float) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            _hang_up(connection)
        self._due_at = now + self._backoff * random.uniform(0.5, 1.0)  # noqa: S311
        self._backoff = min(self._backoff * 2, _BACKOFF_MAX)

    def close(self) -> None:
        """Says Goodbye and waits, a moment, until the dispatcher has closed its side."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.welcomed and connection.reader is not None:
            connection.outbox.put(worker_pb2.FromWorker(goodbye=worker_pb2.Goodbye()))
            connection.outbox.end()
            connection.reader.join(_GOODBYE_LIMIT)
        _hang_up(connection)


def _hang_up(connection: _Connection) -> None:
    connection.outbox.end()
    if connection.call is not None:
        connection.call.cancel()


def channel_to(dispatcher: Dispatcher) -> grpc.Channel:
    """A connection of its own to a dispatcher."""
    tls = dispatcher.tls
    if tls is None:
        return grpc.insecure_channel(dispatcher.target, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=tls.ca, private_key=tls.key, certificate_chain=tls.certificate
    )
    return grpc.secure_channel(dispatcher.target, credentials, options=_OPTIONS)


def _read(
    channel: grpc.Channel,
    call: _Call,
    number: int,
    tell: Callable[[Heard | Closed], None],
) -> None:
    """Hears one connection to its end."""
    why = "the dispatcher closed the connection"
    try:
        for message in call:
            tell(Heard(number, message))
    except grpc.RpcError as error:
        why = f"the dispatcher ended the connection: {_status(error)}"
    finally:
        channel.close()
        tell(Closed(number, why))


def _status(error: grpc.RpcError) -> str:
    if isinstance(error, grpc.Call):
        return f"{error.code().name}: {error.details()}"
    return str(error)
