"""The session as a dispatcher sees it: what the worker says, and says again, whatever happens to the connection."""

import asyncio
import logging
import threading
import time
import unittest

from escapement_worker import RunContext, Summary, Worker
from escapement_worker._proto import job_pb2, worker_pb2
from escapement_worker.report import Outcome
from tests.fake import LIMIT, FakeDispatcher, Session, handler, run


class Subject:
    """A worker in a thread. Its handler `gate` ends when the test opens it, or when it is cancelled."""

    def __init__(self, *dispatchers: FakeDispatcher, slots: int = 4, drain: float = 0.3) -> None:
        self.gate = threading.Semaphore(0)
        self.starts = 0
        self.let_go = threading.Event()
        self.told = threading.Event()
        addresses = [dispatcher.address for dispatcher in dispatchers]
        self.worker = Worker(addresses, "secret", name="subject", slots=slots, labels={"team": "billing"}, drain=drain)
        for handled in (
            self.gated,
            self.stubborn,
            self.stubborn_async,
            self.says,
            self.says_async,
            self.fails,
            self.talks,
        ):
            self.worker.handler(handled.__name__)(handled)
        self.worker.handler("not_awaited")(lambda run: self.says_async(run))
        self.summary: Summary | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.summary = self.worker.run()

    def talks(self, run: RunContext) -> None:
        run.log("one")
        run.progress(0.4, "counting")
        self.gate.acquire(timeout=LIMIT)
        run.log("two")

    def gated(self, run: RunContext) -> None:
        self.starts += 1
        while not self.gate.acquire(timeout=0.01):
            if run.cancelled.is_set():
                self.told.set()
                raise RuntimeError("told to stop")

    def stubborn(self, run: RunContext) -> None:
        self.let_go.wait(LIMIT)

    async def stubborn_async(self, run: RunContext) -> None:
        await asyncio.sleep(LIMIT)

    def says(self, run: RunContext) -> str:
        run.log("number", run.payload["number"])
        return f"token {run.fencing_token}"

    async def says_async(self, run: RunContext) -> None:
        await asyncio.sleep(0)
        run.log(run.run_name)

    def fails(self, run: RunContext) -> None:
        run.log("tray 2")
        raise SystemExit("no paper")

    def ended(self) -> Summary:
        self.thread.join(LIMIT)
        assert self.summary is not None, "the worker did not end"
        return self.summary


class SessionTest(unittest.TestCase):
    def setUp(self) -> None:
        logging.getLogger("escapement_worker").setLevel(logging.CRITICAL)

    def dispatcher(self) -> FakeDispatcher:
        dispatcher = FakeDispatcher()
        self.addCleanup(dispatcher.stop)
        return dispatcher

    def subject(self, *dispatchers: FakeDispatcher, slots: int = 4, drain: float = 0.3) -> Subject:
        subject = Subject(*dispatchers, slots=slots, drain=drain)
        self.addCleanup(subject.thread.join, LIMIT)
        self.addCleanup(subject.worker.stop)
        self.addCleanup(subject.gate.release, 100)
        self.addCleanup(subject.let_go.set)
        return subject

    def give(self, session: Session, number: int, ref: worker_pb2.RunRef, name: str = "gated") -> None:
        session.assign(number, ref, handler(name))
        self.assertEqual(session.accepted(), ref)

    def finish(self, session: Session, work: job_pb2.Run, max_runtime: float = 3600) -> worker_pb2.Completed:
        """The report of one attempt of that work, acknowledged."""
        session.assign(1, run(1, 1), work, max_runtime)
        completed = session.completed()
        session.acknowledge(run(1, 1))
        return completed

    def test_hello_names_the_worker_and_carries_the_token(self) -> None:
        dispatcher = self.dispatcher()
        self.subject(dispatcher)
        session = dispatcher.welcome("s1")
        self.assertEqual(session.authorization, "Bearer secret")
        hello = session.hello
        self.assertEqual((hello.name, list(hello.queues), hello.slots), ("subject", ["default"], 4))
        self.assertEqual((dict(hello.labels), hello.session_id), ({"team": "billing"}, ""))

    def test_a_run_is_accepted_reported_and_kept_until_acknowledged(self) -> None:
        dispatcher = self.dispatcher()
        subject = self.subject(dispatcher)
        session = dispatcher.welcome("s1")
        self.give(session, 1, run(1, 1))
        self.give(session, 2, run(1, 1))
        subject.gate.release()
        for _ in range(3):
            completed = session.completed()
            self.assertEqual((completed.outcome, completed.run), (Outcome.SUCCEEDED, run(1, 1)))
        session.in_hand([run(1, 1)])
        session.acknowledge(run(1, 1))
        session.in_hand([])
        self.assertEqual(subject.starts, 1, "given twice, started once")

    def test_the_report_has_what_the_work_said_and_how_it_ended(self) -> None:
        for name, payload, outcome, output, error in [
            ("says", '{"number": 7}', Outcome.SUCCEEDED, b"number 7\ntoken 11", ""),
            ("says_async", "", Outcome.SUCCEEDED, b"invoices@1970-01-01T00:00:01Z\n", ""),
            ("says", "{", Outcome.FAILED, b"", "PayloadError: cannot read the payload of invoices@"),
            ("fails", "", Outcome.FAILED, b"tray 2\n", "SystemExit: no paper"),
            ("not_awaited", "", Outcome.FAILED, b"", "declare it with `async def`"),
            ("unknown", "", Outcome.NOT_STARTED, b"", "no handler 'unknown'; it has: fails, gated"),
        ]:
            with self.subTest(name, payload=payload):
                dispatcher = self.dispatcher()
                self.subject(dispatcher)
                completed = self.finish(dispatcher.welcome("s1"), handler(name, payload))
                self.assertEqual((completed.outcome, completed.output), (outcome, output), completed.error)
                self.assertIn(error, completed.error)

    def test_work_of_other_kinds_is_refused_and_says_who_does_it(self) -> None:
        for work, says in [
            (job_pb2.Run(exec=job_pb2.Exec(argv=["true"])), "does not start processes: give the job a queue of agents"),
            (job_pb2.Run(http=job_pb2.Http(url="http://x/")), "makes no HTTP calls: give the job a queue of agents"),
            (job_pb2.Run(), "does not know the kind of work"),
        ]:
            with self.subTest(says):
                dispatcher = self.dispatcher()
                self.subject(dispatcher)
                completed = self.finish(dispatcher.welcome("s1"), work)
                self.assertEqual(completed.outcome, Outcome.NOT_STARTED)
                self.assertIn(says, completed.error)

    def test_a_broken_connection_is_resumed_elsewhere_with_the_runs_in_hand(self) -> None:
        first = self.dispatcher()
        subject = self.subject(first)
        session = first.welcome("s1")
        self.give(session, 1, run(1, 1))
        session.hang_up()
        again = first.welcome("s1", resumed=True)
        self.assertEqual((again.hello.session_id, list(again.hello.in_hand)), ("s1", [run(1, 1)]))
        self.assertEqual(again.accepted(), run(1, 1), "said again")
        subject.gate.release()
        self.assertEqual(again.completed().outcome, Outcome.SUCCEEDED)

    def test_a_draining_dispatcher_is_left_for_the_next(self) -> None:
        dispatchers = [self.dispatcher(), self.dispatcher()]
        self.subject(*dispatchers)
        until = time.monotonic() + LIMIT
        while not (first := [one for one in dispatchers if one.waits()]) and time.monotonic() < until:
            time.sleep(0.01)
        session = first[0].welcome("s1")
        session.say(drain=worker_pb2.Drain())
        (other,) = [one for one in dispatchers if one is not first[0]]
        self.assertEqual(other.welcome("s1", resumed=True).hello.session_id, "s1")

    def test_who_is_sent_on_and_finds_nobody_comes_back_before_it_tries_a_third(self) -> None:
        dispatchers = [self.dispatcher(), self.dispatcher(), self.dispatcher()]
        self.subject(*dispatchers)
        until = time.monotonic() + LIMIT
        while not any(one.waits() for one in dispatchers) and time.monotonic() < until:
            time.sleep(0.01)
        at = next(place for place, one in enumerate(dispatchers) if one.waits())
        own, following, third = (dispatchers[(at + step) % 3] for step in range(3))
        session = own.welcome("s1")
        # A heartbeat, whose answer comes before what is said next.
        session.in_hand([])
        session.say(drain=worker_pb2.Drain())
        following.accept().hang_up()
        back = own.welcome("s1", resumed=True)
        self.assertEqual(back.hello.session_id, "s1")
        self.assertFalse(third.waits(), "it tried a third")
        back.hang_up()
        third.accept()
        self.assertFalse(following.waits(), "it tried the one that has just failed")

    def test_a_session_that_is_gone_stops_its_runs(self) -> None:
        dispatcher = self.dispatcher()
        self.subject(dispatcher)
        session = dispatcher.welcome("s1")
        self.give(session, 1, run(1, 1))
        session.hang_up()
        completed = dispatcher.welcome("s2", resumed=False).completed()
        self.assertEqual(completed.outcome, Outcome.ABANDONED)
        self.assertIn("whose session had ended (RuntimeError: told to stop)", completed.error)

    def test_silence_means_lost_and_the_expired_lease_stops_what_runs(self) -> None:
        dispatcher = self.dispatcher()
        subject = self.subject(dispatcher)
        session = dispatcher.welcome("s1", self_deadline=1.0)
        self.give(session, 1, run(1, 1))
        session.renews = False
        silent = dispatcher.accept()
        self.assertEqual(silent.hello.session_id, "s1", "it tries again, and is not welcomed in time")
        self.assertTrue(subject.told.wait(LIMIT), "nobody welcomes it, and still it stops")
        silent.hang_up()
        completed = dispatcher.welcome("s1", resumed=True).completed()
        self.assertEqual(completed.outcome, Outcome.ABANDONED)
        self.assertIn("whose lease could not be renewed", completed.error)

    def test_max_runtime_and_cancellation_are_told_apart(self) -> None:
        dispatcher = self.dispatcher()
        self.subject(dispatcher)
        session = dispatcher.welcome("s1")
        self.assertEqual(self.finish(session, handler("gated"), 0.3).outcome, Outcome.TIMED_OUT)
        self.give(session, 2, run(2, 1))
        session.say(cancel=worker_pb2.Cancel(run=run(2, 1), reason="by hand"))
        completed = session.completed()
        while completed.run != run(2, 1):
            completed = session.completed()
        self.assertEqual(completed.outcome, Outcome.CANCELLED)
        self.assertIn("cancelled: by hand", completed.error)

    def test_work_that_does_not_stop_is_given_up_and_its_slot_is_free(self) -> None:
        for name, says in [("stubborn", "given up"), ("stubborn_async", "and was cancelled")]:
            with self.subTest(name):
                dispatcher = self.dispatcher()
                subject = self.subject(dispatcher, slots=1)
                session = dispatcher.welcome("s1")
                completed = self.finish(session, handler(name), 0.3)
                self.assertEqual(completed.outcome, Outcome.TIMED_OUT)
                self.assertIn(says, completed.error)
                self.give(session, 2, run(2, 1))
                subject.gate.release()

    def test_a_drain_finishes_what_is_in_hand_and_says_goodbye(self) -> None:
        dispatcher = self.dispatcher()
        subject = self.subject(dispatcher, drain=LIMIT)
        session = dispatcher.welcome("s1")
        self.give(session, 1, run(1, 1))
        subject.worker.stop()
        session.expect("Drain", lambda m: True if m.HasField("drain") else None)
        subject.gate.release()
        self.assertEqual(session.completed().outcome, Outcome.SUCCEEDED)
        session.acknowledge(run(1, 1))
        session.expect("Goodbye", lambda m: True if m.HasField("goodbye") else None)
        self.assertEqual(subject.ended(), Summary(finished=1, unreported=0))

    def test_a_drain_that_takes_too_long_stops_what_runs(self) -> None:
        dispatcher = self.dispatcher()
        subject = self.subject(dispatcher, drain=1.5)
        session = dispatcher.welcome("s1")
        self.give(session, 1, run(1, 1))
        subject.worker.stop()
        completed = session.completed()
        self.assertEqual(completed.outcome, Outcome.ABANDONED)
        self.assertIn("which ended before the run did", completed.error)
        self.assertEqual(subject.ended(), Summary(finished=1, unreported=1), "nobody acknowledged it")

    def test_what_can_not_be_understood_is_counted_and_changes_nothing(self) -> None:
        dispatcher = self.dispatcher()
        subject = self.subject(dispatcher)
        session = dispatcher.welcome("s1")
        session.assign(1, worker_pb2.RunRef(job_id="invoices"), handler("gated"))
        session.say()
        self.give(session, 2, run(1, 1))
        subject.gate.release()
        self.assertEqual(session.completed().run, run(1, 1))
        session.expect("a heartbeat", lambda m: True if m.heartbeat.processed == 2 else None)

    def test_while_every_dispatcher_is_without_the_database_the_work_goes_on(self) -> None:
        own, other = self.dispatcher(), self.dispatcher()
        self.subject(own)
        session = own.welcome("s1", self_deadline=1.5)
        self.give(session, 1, run(1, 1))
        refs = []
        for name, dispatcher in (("own", own), ("other", other)):
            dispatcher.standing = worker_pb2.StandingResponse(dispatcher_id=name, without_database=True)
            refs.append(worker_pb2.DispatcherRef(id=name, address=dispatcher.address))
        began = time.monotonic()
        session.without = (began, refs)
        time.sleep(4.5)
        # Three times the deadline: then one has the database back.
        other.standing = worker_pb2.StandingResponse(dispatcher_id="other", without_database=False)
        self.assertEqual(session.completed().outcome, worker_pb2.Completed.ABANDONED)
        took = time.monotonic() - began
        self.assertTrue(4.5 < took < 7.5, f"took {took}")

    def test_what_a_run_logs_is_shown_while_it_runs(self) -> None:
        dispatcher = self.dispatcher()
        subject = self.subject(dispatcher)
        session = dispatcher.welcome("s1")
        self.give(session, 1, run(1, 1), "talks")
        live = session.expect("what it logs", lambda m: m.live if m.HasField("live") else None)
        self.assertEqual((live.offset, live.tail, live.note), (0, b"one\n", "counting"))
        self.assertAlmostEqual(live.fraction, 0.4)
        subject.gate.release()
        last = session.expect("the last of it", lambda m: m.live if m.HasField("live") else None)
        self.assertEqual(last.tail, b"one\ntwo\n")
        self.assertEqual(session.completed().output, b"one\ntwo\n")


if __name__ == "__main__":
    unittest.main()
