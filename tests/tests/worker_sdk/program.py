"""The Python worker of the tests of both SDKs; `tests/src/worker.rs` is the same in Rust.

Takes its name, its queue, its token's file, a folder for marks, and the dispatchers as arguments.
"""

import asyncio
import json
import logging
import pathlib
import signal
import sys
import threading
from dataclasses import dataclass

from escapement_worker import RunContext, Worker

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
name, queue, token_file, folder, *dispatchers = sys.argv[1:]
marks = pathlib.Path(folder)
token = pathlib.Path(token_file).read_text().strip()
labels = {"language": "python"}
worker = Worker(dispatchers, token, queues=[queue], slots=4, name=name, labels=labels, version="1.2.3")


@dataclass
class Customer:
    number: int


@dataclass
class Invoice:
    customer: Customer


def first(what: str) -> bool:
    """True for whoever asks first, in all processes."""
    try:
        (marks / what).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@worker.typed_handler("invoice", Invoice)
def invoice(run: RunContext, invoice: Invoice) -> str:
    return json.dumps(
        {
            "customer": invoice.customer.number,
            "job": run.job_name,
            "scheduledFor": run.scheduled_for.isoformat(),
            "token": str(run.fencing_token),
            "guardKey": run.guard_key,
            "idempotencyKey": run.idempotency_key,
            "attempt": run.attempt,
            "deadline": run.deadline.isoformat(),
            "name": run.run_name,
            "origin": run.origin,
            "queue": run.queue,
        }
    )


@worker.typed_handler("remind", str)
async def remind(run: RunContext, how: str) -> None:
    await asyncio.sleep(0.01)
    run.log("reminded", how)


@worker.handler("fail")
def fail(run: RunContext) -> None:
    raise OSError("out of paper")


@worker.handler("crash")
def crash(run: RunContext) -> None:
    sys.exit("out of ink")


@worker.handler("waits")
async def waits(run: RunContext) -> None:
    """Until it is told to stop."""
    first(f"{run.job_name}-waits")
    await run.cancelled.wait_async()
    first(f"{run.job_name}-told")
    raise RuntimeError("told to stop")


@worker.handler("hangs-once")
def hangs_once(run: RunContext) -> None:
    if first("hangs"):
        run.cancelled.wait()
        raise RuntimeError("told to stop")


@worker.handler("freezes-once")
def freezes_once(run: RunContext) -> None:
    if first("freezes"):
        # Frozen at its last instruction: after the thaw no other thread runs before this one has ended.
        sys.setswitchinterval(1000)
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


@worker.handler("until-opened")
def until_opened(run: RunContext) -> None:
    run.log("waiting")
    run.progress(0.4, "at the door")
    first("waits")
    while not (marks / "opened").exists():
        if run.cancelled.wait(0.05):
            raise RuntimeError("told to stop")
    run.log("opened")


summary = worker.run()
print(f"finished={summary.finished} unreported={summary.unreported}", flush=True)
