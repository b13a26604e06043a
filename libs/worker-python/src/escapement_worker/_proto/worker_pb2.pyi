import datetime

from escapement_worker._proto import job_pb2 as _job_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StandingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StandingResponse(_message.Message):
    __slots__ = ("dispatcher_id", "without_database")
    DISPATCHER_ID_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_DATABASE_FIELD_NUMBER: _ClassVar[int]
    dispatcher_id: str
    without_database: bool
    def __init__(self, dispatcher_id: _Optional[str] = ..., without_database: bool = ...) -> None: ...

class FromWorker(_message.Message):
    __slots__ = ("hello", "heartbeat", "accepted", "completed", "drain", "goodbye", "live")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    heartbeat: Heartbeat
    accepted: Accepted
    completed: Completed
    drain: Drain
    goodbye: Goodbye
    live: Live
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ..., completed: _Optional[_Union[Completed, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., live: _Optional[_Union[Live, _Mapping]] = ...) -> None: ...

class ToWorker(_message.Message):
    __slots__ = ("welcome", "assignment", "completion_ack", "cancel", "heartbeat_ack", "drain")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_ACK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    assignment: Assignment
    completion_ack: CompletionAck
    cancel: Cancel
    heartbeat_ack: HeartbeatAck
    drain: Drain
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., assignment: _Optional[_Union[Assignment, _Mapping]] = ..., completion_ack: _Optional[_Union[CompletionAck, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("name", "queues", "slots", "labels", "version", "session_id", "in_hand", "unheard")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    IN_HAND_FIELD_NUMBER: _ClassVar[int]
    UNHEARD_FIELD_NUMBER: _ClassVar[int]
    name: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    labels: _containers.ScalarMap[str, str]
    version: str
    session_id: str
    in_hand: _containers.RepeatedCompositeFieldContainer[RunRef]
    unheard: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., version: _Optional[str] = ..., session_id: _Optional[str] = ..., in_hand: _Optional[_Iterable[_Union[RunRef, _Mapping]]] = ..., unheard: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("session_id", "connection", "resumed", "lease", "heartbeat_interval", "self_deadline", "kill_grace")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    SELF_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    KILL_GRACE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    connection: int
    resumed: bool
    lease: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    self_deadline: _duration_pb2.Duration
    kill_grace: _duration_pb2.Duration
    def __init__(self, session_id: _Optional[str] = ..., connection: _Optional[int] = ..., resumed: bool = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., self_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., kill_grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RunRef(_message.Message):
    __slots__ = ("job_id", "scheduled_for", "attempt", "token")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FOR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    scheduled_for: _timestamp_pb2.Timestamp
    attempt: int
    token: str
    def __init__(self, job_id: _Optional[str] = ..., scheduled_for: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("sequence", "processed", "in_hand", "unheard")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_FIELD_NUMBER: _ClassVar[int]
    IN_HAND_FIELD_NUMBER: _ClassVar[int]
    UNHEARD_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    processed: int
    in_hand: _containers.RepeatedCompositeFieldContainer[RunRef]
    unheard: _duration_pb2.Duration
    def __init__(self, sequence: _Optional[int] = ..., processed: _Optional[int] = ..., in_hand: _Optional[_Iterable[_Union[RunRef, _Mapping]]] = ..., unheard: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ("sequence", "renewal_age", "without_database", "dispatchers", "list_age")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RENEWAL_AGE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_DATABASE_FIELD_NUMBER: _ClassVar[int]
    DISPATCHERS_FIELD_NUMBER: _ClassVar[int]
    LIST_AGE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    renewal_age: _duration_pb2.Duration
    without_database: bool
    dispatchers: _containers.RepeatedCompositeFieldContainer[DispatcherRef]
    list_age: _duration_pb2.Duration
    def __init__(self, sequence: _Optional[int] = ..., renewal_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., without_database: bool = ..., dispatchers: _Optional[_Iterable[_Union[DispatcherRef, _Mapping]]] = ..., list_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DispatcherRef(_message.Message):
    __slots__ = ("id", "address")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("number", "run", "job_name", "origin", "idempotency_key", "guard_key", "max_runtime", "traceparent", "work", "queue")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    GUARD_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    number: int
    run: RunRef
    job_name: str
    origin: str
    idempotency_key: str
    guard_key: str
    max_runtime: _duration_pb2.Duration
    traceparent: str
    work: _job_pb2.Run
    queue: str
    def __init__(self, number: _Optional[int] = ..., run: _Optional[_Union[RunRef, _Mapping]] = ..., job_name: _Optional[str] = ..., origin: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., guard_key: _Optional[str] = ..., max_runtime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., traceparent: _Optional[str] = ..., work: _Optional[_Union[_job_pb2.Run, _Mapping]] = ..., queue: _Optional[str] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: RunRef
    def __init__(self, run: _Optional[_Union[RunRef, _Mapping]] = ...) -> None: ...

class Live(_message.Message):
    __slots__ = ("run", "offset", "tail", "fraction", "note")
    RUN_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    run: RunRef
    offset: int
    tail: bytes
    fraction: float
    note: str
    def __init__(self, run: _Optional[_Union[RunRef, _Mapping]] = ..., offset: _Optional[int] = ..., tail: _Optional[bytes] = ..., fraction: _Optional[float] = ..., note: _Optional[str] = ...) -> None: ...

class Completed(_message.Message):
    __slots__ = ("run", "outcome", "exit_status", "output", "output_truncated", "error")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Completed.Outcome]
        SUCCEEDED: _ClassVar[Completed.Outcome]
        FAILED: _ClassVar[Completed.Outcome]
        NOT_STARTED: _ClassVar[Completed.Outcome]
        TIMED_OUT: _ClassVar[Completed.Outcome]
        CANCELLED: _ClassVar[Completed.Outcome]
        ABANDONED: _ClassVar[Completed.Outcome]
    UNSPECIFIED: Completed.Outcome
    SUCCEEDED: Completed.Outcome
    FAILED: Completed.Outcome
    NOT_STARTED: Completed.Outcome
    TIMED_OUT: Completed.Outcome
    CANCELLED: Completed.Outcome
    ABANDONED: Completed.Outcome
    RUN_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    run: RunRef
    outcome: Completed.Outcome
    exit_status: int
    output: bytes
    output_truncated: bool
    error: str
    def __init__(self, run: _Optional[_Union[RunRef, _Mapping]] = ..., outcome: _Optional[_Union[Completed.Outcome, str]] = ..., exit_status: _Optional[int] = ..., output: _Optional[bytes] = ..., output_truncated: bool = ..., error: _Optional[str] = ...) -> None: ...

class CompletionAck(_message.Message):
    __slots__ = ("run", "answer")
    class Answer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[CompletionAck.Answer]
        RECORDED: _ClassVar[CompletionAck.Answer]
        STALE: _ClassVar[CompletionAck.Answer]
    UNSPECIFIED: CompletionAck.Answer
    RECORDED: CompletionAck.Answer
    STALE: CompletionAck.Answer
    RUN_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    run: RunRef
    answer: CompletionAck.Answer
    def __init__(self, run: _Optional[_Union[RunRef, _Mapping]] = ..., answer: _Optional[_Union[CompletionAck.Answer, str]] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("run", "reason")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    run: RunRef
    reason: str
    def __init__(self, run: _Optional[_Union[RunRef, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
