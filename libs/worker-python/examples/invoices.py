"""Sends invoices: the Python worker of docs/workers.md."""

import logging
import os
from dataclasses import dataclass

from escapement_worker import RunContext, Worker


@dataclass
class Item:
    name: str
    cents: int


@dataclass
class Invoice:
    customer: str
    items: list[Item]


logging.basicConfig(level=logging.INFO)
worker = Worker(
    os.environ["ESCAPEMENT_DISPATCHERS"].split(","),  # http://host:port, more than one: runs survive the end of one
    os.environ["ESCAPEMENT_WORKER_TOKEN"],
    queues=["billing"],
    slots=8,  # runs at a time
    name="billing-1",
    version="1.0",
    labels={"team": "billing"},
)


@worker.typed_handler("invoice", Invoice)
def invoice(run: RunContext, invoice: Invoice) -> None:
    total = sum(item.cents for item in invoice.items)
    # The receiver remembers the key: a second attempt of the same run sends nothing twice.
    run.log(f"{invoice.customer} owes {total} cents, key {run.idempotency_key}")


@worker.handler("export")
async def export(run: RunContext) -> None:
    days = range(1, 31)
    for day in days:
        if run.cancelled.is_set():
            raise RuntimeError(f"stopped before day {day}")
        run.progress(day / len(days), f"day {day}")
    run.log(f"{len(days)} days, in time for {run.deadline:%H:%M:%S}")


summary = worker.run()  # until SIGTERM or Ctrl-C, then finishes what is in hand
print(f"{summary.finished} attempts, {summary.unreported} not reported")
