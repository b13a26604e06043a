"""The SDK of a Python program that does the work of Escapement's runs.

A `Worker` keeps a session with one of the dispatchers, takes runs from its queues, hands them to handlers and reports
how they ended, again and again until that is in the ledger. It stops its own runs when their time is over, and when
its lease could not be renewed: then they may be given to another worker.

*Each occurrence gets exactly one run; each run is attempted at least once; its result is recorded once.* So work must
bear a second attempt: give `run.idempotency_key` or `run.fencing_token` to what it writes to.
"""

from escapement_worker.context import Cancellation, RunContext
from escapement_worker.errors import ConfigurationError, PayloadError
from escapement_worker.keeper import Summary
from escapement_worker.report import ERROR_MAX_BYTES, OUTPUT_MAX_BYTES
from escapement_worker.work import Handler, TypedHandler
from escapement_worker.worker import SLOTS_MAX, Worker

__all__ = [
    "ERROR_MAX_BYTES",
    "OUTPUT_MAX_BYTES",
    "SLOTS_MAX",
    "Cancellation",
    "ConfigurationError",
    "Handler",
    "PayloadError",
    "RunContext",
    "Summary",
    "TypedHandler",
    "Worker",
]
__version__ = "0.1.0"
