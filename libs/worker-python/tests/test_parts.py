"""Lease, ring, report, context and configuration, without network and clock."""

import asyncio
import threading
import unittest
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone

from escapement_worker import ConfigurationError, PayloadError, RunContext, Worker
from escapement_worker._proto import job_pb2, worker_pb2
from escapement_worker.assignment import Assignment, RunKey
from escapement_worker.lease import Lease, Peer, Renewal, Terms, is_without
from escapement_worker.report import ERROR_MAX_BYTES, OUTPUT_MAX_BYTES, Output, chain, shortened
from escapement_worker.ring import Ring
from tests.test_hand import assignment, attempt

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def granted() -> Lease:
    lease = Lease()
    lease.grant(Terms(), 100, resumed=True)
    return lease


def without_its_database() -> Lease:
    """Renewed at 101 for the last time, so valid until 110; asked at 104 by a list from 102."""
    lease = granted()
    peers = (Peer("d1", "http://d1"), Peer("d2", "http://d2"))
    lease.answered(lease.ask(104), Renewal(3, peers, 2))
    return lease


def sent_on(start: int, count: int = 4) -> Ring:
    ring = Ring(count, start)
    ring.answered(without_database=False)
    ring.sent_on()
    return ring


def order(ring: Ring) -> list[int]:
    """The place after each failure, beginning with the present one."""
    places = [ring.current]
    for _ in range(6):
        ring.failed()
        places.append(ring.current)
    return places


class RingTest(unittest.TestCase):
    def test_failures_lead_around_the_list(self) -> None:
        self.assertEqual(order(Ring(4, 2)), [2, 3, 0, 1, 2, 3, 0])
        self.assertEqual(order(Ring(1, 0)), [0] * 7)

    def test_who_is_sent_on_tries_one_other_and_comes_back_before_it_tries_a_third(self) -> None:
        self.assertEqual(order(sent_on(0)), [1, 0, 2, 3, 0, 1, 2])
        self.assertEqual(order(sent_on(3)), [0, 3, 1, 2, 3, 0, 1])
        self.assertEqual(order(sent_on(0, count=1)), [0] * 7)

    def test_who_has_arrived_does_not_go_back(self) -> None:
        ring = sent_on(0)
        ring.answered(without_database=False)
        self.assertEqual(order(ring), [1, 2, 3, 0, 1, 2, 3])
        ring = sent_on(0)
        ring.failed()
        ring.answered(without_database=False)
        self.assertEqual(order(ring), [0, 1, 2, 3, 0, 1, 2], "it was taken back")

    def test_a_dispatcher_without_the_database_or_that_answered_nothing_is_not_gone_back_to(self) -> None:
        cut_off = Ring(4, 0)
        cut_off.answered(without_database=False)
        cut_off.answered(without_database=True)
        cut_off.sent_on()
        self.assertEqual(order(cut_off), [1, 2, 3, 0, 1, 2, 3])
        ends = sent_on(0)
        ends.sent_on()
        self.assertEqual(order(ends)[:4], [0, 2, 3, 0], "the second one ends: back to the first")


class LeaseTest(unittest.TestCase):
    def test_nothing_is_allowed_before_the_first_grant(self) -> None:
        self.assertFalse(Lease().is_valid(0))

    def test_a_renewal_counts_from_before_the_question_less_its_age(self) -> None:
        lease = granted()
        lease.answered(lease.ask(103), Renewal(2))
        self.assertEqual(lease.until, 110, "103 - 2 + 9, however late the answer came")

    def test_a_resumption_renews_nothing_and_its_first_answer_does(self) -> None:
        lease = granted()
        lease.answered(lease.ask(103), Renewal(0))
        lease.grant(Terms(), 108, resumed=True)
        self.assertEqual(lease.until, 112, "nobody knows whether the Welcome is heard")
        lease.answered(lease.ask(108), Renewal(1))
        self.assertEqual(lease.until, 116)
        lease.grant(Terms(), 110, resumed=False)
        self.assertEqual(lease.until, 119, "a new session begins anew")

    def test_only_answers_count_as_heard(self) -> None:
        self.assertIsNone(Lease().unheard(100))
        lease = granted()
        sequence = lease.ask(103)
        lease.ask(106)
        self.assertEqual(lease.unheard(106), 6)
        lease.answered(sequence, Renewal(0))
        self.assertEqual(lease.unheard(107), 4, "from before it was asked")
        lease.grant(Terms(), 108, resumed=True)
        self.assertEqual(lease.unheard(109), 6, "a Welcome is no answer")

    def test_an_answer_from_before_a_freeze_extends_nothing(self) -> None:
        lease = granted()
        lease.answered(lease.ask(103), Renewal(0))
        self.assertFalse(lease.is_valid(163))

    def test_a_dispatcher_without_its_database_does_not_extend_the_lease(self) -> None:
        lease = granted()
        for now, age in [(103, 1), (106, 4), (109, 7)]:
            lease.answered(lease.ask(now), Renewal(age))
            self.assertEqual(lease.until, 111, "its last renewal was at 102")

    def test_unknown_and_repeated_answers_change_nothing(self) -> None:
        lease = granted()
        first, second = lease.ask(103), lease.ask(106)
        for sequence, age in [(second, 0), (first, 0), (second, 5), (99, 0)]:
            lease.answered(sequence, Renewal(age))
        lease.answered(lease.ask(109), Renewal())
        self.assertEqual(lease.until, 115)

    def test_only_when_every_dispatcher_is_without_the_database_the_worker_goes_on(self) -> None:
        for without, until in [((True, True), 114), ((True, False), 110), ((), 110)]:
            lease = without_its_database()
            question = lease.question(105)
            assert question is not None
            self.assertEqual((question.asked, len(question.peers)), (105, 2))
            self.assertEqual(lease.vouched(question.asked, without, 107), until == 114)
            self.assertEqual(lease.until, until, without)

    def test_all_are_asked_once_a_second_by_a_fresh_list_and_while_the_lease_holds(self) -> None:
        lease = without_its_database()
        asks = [second for second in (105, 105, 106, 108, 109) if lease.question(second) is not None]
        self.assertEqual(asks, [105, 106, 108], "at 109 the list is seven seconds old")
        self.assertIsNone(without_its_database().question(110), "it has ended")
        self.assertIsNone(granted().question(105), "its dispatcher has the database")
        gone = without_its_database()
        gone.disconnected()
        self.assertIsNone(gone.question(105), "nobody is sure to be asked")

    def test_an_answer_that_comes_after_the_end_takes_nothing_back(self) -> None:
        lease = without_its_database()
        self.assertFalse(lease.vouched(105, (True, True), 110))
        self.assertEqual(lease.until, 110)

    def test_another_process_at_the_same_address_does_not_answer_for_the_first(self) -> None:
        peer = Peer("d1", "http://d1")
        for id, without, expected in [("d1", True, True), ("d1", False, False), ("d2", True, False)]:
            standing = worker_pb2.StandingResponse(dispatcher_id=id, without_database=without)
            self.assertEqual(is_without(peer, standing), expected)

    def test_silence_is_the_age_of_the_oldest_open_question(self) -> None:
        lease = granted()
        self.assertEqual(lease.silence(150), 0)
        first = lease.ask(103)
        lease.ask(106)
        self.assertEqual(lease.silence(107), 4)
        lease.answered(first, Renewal(0))
        self.assertEqual(lease.silence(107), 1)

    def test_a_welcome_that_names_no_terms_gets_the_defaults(self) -> None:
        welcome = worker_pb2.Welcome()
        welcome.heartbeat_interval.FromMilliseconds(250)
        self.assertEqual(Terms.read(welcome), Terms(heartbeat_interval=0.25))


class ReportTest(unittest.TestCase):
    def test_only_the_end_of_the_output_is_kept(self) -> None:
        output = Output()
        output.add("a" * 10)
        self.assertFalse(output.truncated)
        output.add(b"b" * OUTPUT_MAX_BYTES)
        self.assertEqual((output.tail, output.truncated), (b"b" * OUTPUT_MAX_BYTES, True))

    def test_long_errors_are_cut_between_characters(self) -> None:
        self.assertEqual(len(shortened("ü" * ERROR_MAX_BYTES).encode()), ERROR_MAX_BYTES)
        self.assertEqual(len(shortened("a" + "ü" * ERROR_MAX_BYTES).encode()), ERROR_MAX_BYTES - 1)
        self.assertEqual(shortened("\ud800"), "\\ud800")

    def test_an_error_is_told_with_its_causes(self) -> None:
        outer = RuntimeError("cannot print")
        outer.__cause__ = OSError("no paper")
        self.assertEqual(chain(outer), "RuntimeError: cannot print: OSError: no paper")
        outer.__cause__.__cause__ = outer
        self.assertEqual(chain(outer), "RuntimeError: cannot print: OSError: no paper", "a circle ends")
        self.assertEqual(chain(KeyError()), "KeyError")


class RunContextTest(unittest.TestCase):
    def context(self, payload: str = "", of: Assignment | None = None) -> RunContext:
        work = job_pb2.Run(handler=job_pb2.Handler(name="invoice", payload=payload))
        return RunContext(replace(of or assignment(attempt(0, 1)), work=work), EPOCH, 4)

    def test_a_payload_is_json_and_a_wrong_one_names_run_and_place(self) -> None:
        self.assertEqual(self.context('{"number": 7}').payload, {"number": 7})
        self.assertIsNone(self.context().payload)
        with self.assertRaisesRegex(PayloadError, "invoices@1970-01-01T00:00:00Z.*line 1 column 2"):
            _ = self.context("{number").payload

    def test_a_run_is_named_as_everywhere(self) -> None:
        for nanos, text in [(0, "00"), (120_000_000, "00.120"), (123_456_000, "00.123456"), (7, "00.000000007")]:
            key = RunKey("j", 1_795_942_800, nanos)
            of = replace(assignment(attempt(0, 1)), attempt=replace(attempt(0, 1), run=key))
            self.assertEqual(self.context(of=of).run_name, f"invoices@2026-11-29T09:00:{text}Z")

    def test_the_deadline_follows_from_acceptance(self) -> None:
        self.assertEqual(self.context().deadline.timestamp(), 60)
        endless = replace(assignment(attempt(0, 1)), max_runtime=3e11)
        self.assertEqual(self.context(of=endless).deadline.year, 9999)

    def test_lines_are_kept_whatever_they_are_made_of(self) -> None:
        run = self.context()
        run.log("sent", 3, "\udc80")
        self.assertEqual(run._said(), (b"sent 3 \\udc80\n", False))

    def test_threads_and_coroutines_learn_of_the_stop(self) -> None:
        run = self.context()
        told: list[bool] = []
        waiter = threading.Thread(target=lambda: told.append(run.cancelled.wait(60)))
        waiter.start()

        async def wait() -> None:
            waiting = [asyncio.create_task(run.cancelled.wait_async()) for _ in range(2)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            run.cancelled._set()
            await waiting[1]
            await run.cancelled.wait_async()

        asyncio.run(asyncio.wait_for(wait(), 60))
        waiter.join(60)
        self.assertEqual((told, run.cancelled.is_set()), ([True], True))


class WorkerTest(unittest.TestCase):
    def test_what_is_missing_is_named(self) -> None:
        good = "http://127.0.0.1:7001"
        cases: list[tuple[Callable[[], object], str]] = [
            (lambda: Worker([], "secret"), "no dispatcher"),
            (lambda: Worker("127.0.0.1:7001", "secret"), "use http://host:port"),
            (lambda: Worker("http://host:port", "secret"), "use http://host:port"),
            (lambda: Worker("https://dispatcher:7001", "secret"), "tls_ca"),
            (lambda: Worker("http://dispatcher:7001", "secret", tls_certificate=b"x"), "tls_key is missing"),
            (lambda: Worker("http://dispatcher:7001", "secret", tls_key=b"x"), "tls_certificate is missing"),
            (lambda: Worker(good, ""), "the token is missing"),
            (lambda: Worker(good, "a\nb"), "the token is missing"),
            (lambda: Worker(good, "secret", slots=0), "0 slots: use 1 to"),
            (lambda: Worker(good, "secret", queues="billing"), r"give a list of names"),
            (lambda: Worker(good, "secret", drain=-1), "drain=-1"),
            (lambda: Worker(good, "secret").handler("")(print), "the handler's name is empty"),
            (lambda: Worker(good, "secret").run(), "no handler was given"),
        ]
        for build, says in cases:
            with self.subTest(says), self.assertRaisesRegex(ConfigurationError, says):
                build()

    def test_a_handlers_name_is_taken_once(self) -> None:
        worker = Worker(["http://[::1]:7001", "http://127.0.0.1:7001/"], "secret")
        worker.handler("invoice")(print)
        with self.assertRaisesRegex(ConfigurationError, "two handlers 'invoice'"):
            worker.handler("invoice")(print)


if __name__ == "__main__":
    unittest.main()
