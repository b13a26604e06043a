"""Payloads as the types that handlers name, and what is said of those that are not that."""

import enum
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from typing import Any, Literal, Optional, TypedDict

from escapement_worker import ConfigurationError, PayloadError, RunContext, Worker
from escapement_worker._proto import job_pb2
from tests.test_hand import assignment, attempt


class Kind(enum.Enum):
    PRIVATE = "private"
    FIRM = "firm"


@dataclass
class Item:
    name: str
    cents: int
    parts: list["Item"] = field(default_factory=list)


@dataclass
class Invoice:
    customer: str
    items: list[Item]
    kind: Kind = Kind.FIRM
    discount: float = 0
    note: str | None = None
    copy_to: Optional[list[str]] = None  # noqa: UP045 (both forms are read)
    language: Literal["de", "en"] = "en"
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.discount > 1:
            raise ValueError("discount: at most 1")


class Reminder(TypedDict, total=False):
    customer: str
    days: int


def run_with(payload: str) -> RunContext:
    work = job_pb2.Run(handler=job_pb2.Handler(name="invoice", payload=payload))
    return RunContext(replace(assignment(attempt(0, 1)), work=work), datetime(1970, 1, 1, tzinfo=timezone.utc), 4)


class PayloadTest(unittest.TestCase):
    def test_what_fits_is_read(self) -> None:
        text = """{"customer": "ACME", "items": [{"name": "bolt", "cents": 7, "parts": [{"name": "nut", "cents": 1}]}],
            "kind": "private", "discount": 1, "note": "n", "copy_to": ["a"], "language": "de", "labels": {"a": "b"},
            "unknown": 1}"""
        items = [Item("bolt", 7, [Item("nut", 1)])]
        expected = Invoice("ACME", items, Kind.PRIVATE, 1.0, "n", ["a"], "de", {"a": "b"})
        self.assertEqual(run_with(text).payload_as(Invoice), expected)
        self.assertEqual(run_with('{"customer": "A", "items": []}').payload_as(Invoice), Invoice("A", []))
        self.assertEqual(run_with('{"days": 3}').payload_as(Reminder), {"days": 3})
        self.assertEqual(run_with("[1, 2]").payload_as(list[int]), [1, 2])
        self.assertEqual(run_with("[1, null]").payload_as(list[Any]), [1, None])
        self.assertEqual(run_with("7").payload_as(lambda value: value + 1), 8)

    def test_what_does_not_fit_is_told_with_run_type_and_field(self) -> None:
        item = '{"customer": "A", "items": [{"name": "bolt", "cents": %s}]}'
        more = '{"customer": "A", "items": [], %s}'
        cases: list[tuple[Callable[..., object], str, str | None, str]] = [
            (Invoice, item % '"seven"', "items[0].cents", 'a whole number is needed, not "seven"'),
            (Invoice, item % "true", "items[0].cents", "not true"),
            (Invoice, item % "1.5", "items[0].cents", "not 1.5"),
            (Invoice, item % "null", "items[0].cents", "not null"),
            (Invoice, '{"customer": "A"}', "items", "is missing"),
            (Invoice, more % '"kind": "x"', "kind", 'one of "private", "firm" is needed'),
            (Invoice, more % '"language": "fr"', "language", 'one of "de", "en" is needed'),
            (Invoice, more % '"copy_to": [1]', "copy_to[0]", "a text is needed"),
            (Invoice, more % '"labels": {"a": 1}', "labels.a", "a text is needed"),
            (Invoice, more % '"discount": 2', None, "discount: at most 1"),
            (Invoice, "", None, "an object is needed, not null"),
            (Reminder, '{"days": "x"}', "days", "a whole number is needed"),
            (int, '"' + "x" * 100 + '"', None, "x…"),
            (lambda value: value["customer"], "{}", None, "customer"),
        ]
        for expected, payload, place, says in cases:
            with self.subTest(payload=payload), self.assertRaises(PayloadError) as caught:
                run_with(payload).payload_as(expected)
            self.assertEqual(caught.exception.field, place)
            text = str(caught.exception)
            self.assertIn(says, text)
            self.assertIn("the payload of invoices@1970-01-01T00:00:00Z does not fit ", text)
            self.assertIn(f", at {place}: " if place else ": ", text)

    def test_a_type_that_no_json_holds_is_refused_when_the_handler_is_registered(self) -> None:
        @dataclass
        class Dated:
            days: list[date]

        cases: list[tuple[Callable[..., object], str]] = [
            (date, "date is no type of a payload"),
            (Dated, r"Dated\.days\[\]: date is no type"),
            (dict[int, str], "dict.* is no type"),
        ]
        for expected, says in cases:
            with self.subTest(says), self.assertRaisesRegex(ConfigurationError, says):
                Worker("http://127.0.0.1:7001", "secret").typed_handler("invoice", expected)

    def test_a_typed_handler_is_registered_and_stays_what_it_is(self) -> None:
        worker = Worker("http://127.0.0.1:7001", "secret")

        @worker.typed_handler("invoice", Invoice)
        def invoice(run: RunContext, invoice: Invoice) -> str:
            return invoice.customer

        self.assertEqual(invoice(run_with(""), Invoice("ACME", [])), "ACME")
        with self.assertRaisesRegex(ConfigurationError, "two handlers 'invoice'"):
            worker.typed_handler("invoice", Invoice)(invoice)


if __name__ == "__main__":
    unittest.main()
