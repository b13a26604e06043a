"""The table's rules, one by one, without network and clock."""

import unittest
import uuid

from escapement_worker._proto import job_pb2, worker_pb2
from escapement_worker.assignment import Assignment, Attempt, InvalidAttemptError, RunKey
from escapement_worker.hand import Accepted, Action, Completed, Hand, Start, Stop
from escapement_worker.lease import Renewal, Terms
from escapement_worker.report import Cause, End, Outcome, Report, StopCause

MAX_RUNTIME = 60.0
SUCCEEDED = Report(End.SUCCEEDED)
SIGNAL = Report(End.FAILED, "signal 15")


def attempt(run: int, number: int) -> Attempt:
    return Attempt(RunKey(str(uuid.UUID(int=0)), run, 0), number, number)


def assignment(of: Attempt) -> Assignment:
    return Assignment(
        attempt=of,
        job_name="invoices",
        origin="SCHEDULE",
        queue="default",
        idempotency_key="key",
        guard_key="invoices",
        max_runtime=MAX_RUNTIME,
        traceparent="",
        work=job_pb2.Run(),
    )


def hand_of(slots: int) -> Hand:
    """Welcomed at second 100, with a lease until 109."""
    hand = Hand(slots)
    assert hand.welcomed(Terms(), 100, True, 100) == []
    return hand


def give(hand: Hand, number: int, of: Attempt, second: float) -> list[Action]:
    return hand.assigned(number, assignment(of), second)


def renew(hand: Hand, second: float) -> list[Action]:
    """A heartbeat at `second`, answered at once."""
    heartbeat, actions = hand.heartbeat(second)
    return actions + hand.renewed(heartbeat.sequence, Renewal(0), second)


def started(of: Attempt) -> list[Action]:
    return [Start(assignment(of)), Accepted(of)]


def outcomes(actions: list[Action]) -> list[Outcome]:
    return [action.message.outcome for action in actions if isinstance(action, Completed)]


class HandTest(unittest.TestCase):
    def test_an_assignment_starts_once_however_often_it_arrives(self) -> None:
        hand, run = hand_of(2), attempt(1, 1)
        self.assertEqual(give(hand, 1, run, 100), started(run))
        self.assertEqual(give(hand, 2, run, 101), [Accepted(run)])
        ended = hand.ended(run, SUCCEEDED, False, 102)
        self.assertEqual(outcomes(ended), [Outcome.SUCCEEDED])
        self.assertEqual(give(hand, 3, run, 103), ended, "not started again, but reported again")
        self.assertEqual(hand.heartbeat(103)[0].processed, 3)

    def test_a_run_stays_in_hand_until_its_completion_is_acknowledged(self) -> None:
        hand, run = hand_of(1), attempt(1, 1)
        give(hand, 1, run, 100)
        hand.acknowledged(run)
        self.assertEqual(hand.in_hand(), [run.to_ref()], "a running one is not acknowledged away")
        hand.ended(run, SUCCEEDED, False, 101)
        self.assertEqual(list(hand.heartbeat(102)[0].in_hand), [run.to_ref()])
        hand.acknowledged(run)
        self.assertEqual(len(hand), 0)

    def test_an_unacknowledged_completion_is_sent_again_with_each_interval_and_after_a_reconnect(self) -> None:
        hand, run = hand_of(1), attempt(1, 1)
        give(hand, 1, run, 100)
        ended = hand.ended(run, Report(End.FAILED, "no paper"), False, 101)
        self.assertEqual(hand.heartbeat(103)[1], [], "two seconds are less than an interval")
        self.assertEqual(hand.heartbeat(104)[1], ended)
        self.assertEqual(hand.heartbeat(105)[1], [])
        self.assertEqual(hand.welcomed(Terms(), 106, True, 106), ended)
        self.assertEqual(hand.heartbeat(106)[0].processed, 0, "numbers begin anew on each connection")

    def test_a_resumed_session_keeps_its_runs_and_says_again_that_they_started(self) -> None:
        hand, run = hand_of(1), attempt(1, 1)
        give(hand, 1, run, 100)
        self.assertEqual(hand.welcomed(Terms(), 105, True, 105), [Accepted(run)])

    def test_a_session_that_is_gone_stops_every_run(self) -> None:
        hand, running, waiting = hand_of(1), attempt(1, 1), attempt(2, 1)
        give(hand, 1, running, 100)
        give(hand, 2, waiting, 100)
        actions = hand.welcomed(Terms(), 105, False, 105)
        self.assertIn(Stop(running, StopCause(Cause.SESSION_GONE)), actions)
        self.assertEqual(outcomes(actions), [Outcome.ABANDONED], "the waiting one, once")
        ended = hand.ended(running, SIGNAL, True, 106)
        self.assertEqual(outcomes(ended), [Outcome.ABANDONED])
        self.assertEqual(len(ended), 1, "the waiting one is not started after it")

    def test_the_expired_lease_stops_what_runs_and_a_renewal_takes_nothing_back(self) -> None:
        hand, run = hand_of(2), attempt(1, 1)
        give(hand, 1, run, 100)
        self.assertEqual(hand.wakes_at(), 109)
        self.assertEqual(hand.passed(108), [])
        self.assertEqual(hand.passed(109), [Stop(run, StopCause(Cause.LEASE_EXPIRED))])
        self.assertEqual(hand.passed(110), [], "asked once")
        self.assertIsNone(hand.wakes_at())
        renew(hand, 111)
        self.assertEqual(outcomes(hand.ended(run, SUCCEEDED, True, 112)), [Outcome.ABANDONED])

    def test_a_renewed_lease_keeps_runs_going(self) -> None:
        hand = hand_of(1)
        give(hand, 1, attempt(1, 1), 100)
        for second in range(103, 150, 3):
            renew(hand, second)
            self.assertEqual(hand.passed(second + 8), [])

    def test_nothing_starts_while_the_lease_is_not_valid(self) -> None:
        hand, run = hand_of(1), attempt(1, 1)
        self.assertEqual(give(hand, 1, run, 110), [])
        self.assertEqual(hand.passed(111), [], "it waits: nobody else has it")
        self.assertEqual(renew(hand, 112), started(run))

    def test_more_than_the_slots_wait_and_are_in_hand(self) -> None:
        hand, first, second = hand_of(1), attempt(1, 1), attempt(2, 1)
        give(hand, 1, first, 100)
        self.assertEqual(give(hand, 2, second, 100), [])
        self.assertEqual((hand.running, len(hand)), (1, 2))
        self.assertEqual(hand.ended(first, SUCCEEDED, False, 101)[1:], started(second))

    def test_max_runtime_counts_from_the_start(self) -> None:
        hand, first, second = hand_of(1), attempt(1, 1), attempt(2, 1)
        give(hand, 1, first, 100)
        give(hand, 2, second, 100)
        renew(hand, 130)
        hand.ended(first, SUCCEEDED, False, 130)
        renew(hand, 185)
        self.assertEqual(hand.passed(189), [])
        self.assertEqual(hand.passed(190), [Stop(second, StopCause(Cause.TIMED_OUT))])
        self.assertEqual(outcomes(hand.ended(second, SIGNAL, True, 191)), [Outcome.TIMED_OUT])

    def test_work_that_ended_before_it_was_asked_to_stop_is_reported_as_it_ended(self) -> None:
        hand, run = hand_of(1), attempt(1, 1)
        give(hand, 1, run, 100)
        hand.cancelled(run, "by hand", 101)
        self.assertEqual(outcomes(hand.ended(run, SUCCEEDED, False, 101)), [Outcome.SUCCEEDED])

    def test_a_cancelled_run_says_why_and_the_first_cause_stays(self) -> None:
        hand, run = hand_of(1), attempt(1, 1)
        give(hand, 1, run, 100)
        self.assertEqual(hand.cancelled(run, "by hand", 101), [Stop(run, StopCause(Cause.CANCELLED, "by hand"))])
        self.assertEqual(hand.cancelled(run, "again", 101), [])
        self.assertEqual(hand.passed(300), [])
        (action,) = hand.ended(run, SIGNAL, True, 301)
        assert isinstance(action, Completed)
        self.assertEqual(action.message.outcome, Outcome.CANCELLED)
        self.assertEqual(action.message.error, "cancelled: by hand (signal 15)")

    def test_a_waiting_run_is_cancelled_without_a_start(self) -> None:
        hand, first, second = hand_of(1), attempt(1, 1), attempt(2, 1)
        give(hand, 1, first, 100)
        give(hand, 2, second, 100)
        self.assertEqual(outcomes(hand.cancelled(second, "by hand", 101)), [Outcome.CANCELLED])
        self.assertEqual(len(hand.ended(first, SUCCEEDED, False, 102)), 1)

    def test_a_newer_attempt_waits_for_the_end_of_the_older(self) -> None:
        hand, older, newer = hand_of(2), attempt(1, 1), attempt(1, 2)
        give(hand, 1, older, 100)
        self.assertEqual(give(hand, 2, newer, 101), [Stop(older, StopCause(Cause.NEWER_ATTEMPT))])
        actions = hand.ended(older, SIGNAL, True, 102)
        self.assertEqual(outcomes(actions[:1]), [Outcome.ABANDONED])
        self.assertEqual(actions[1:], started(newer))

    def test_an_older_attempt_that_arrives_late_never_starts(self) -> None:
        hand, older, newer = hand_of(2), attempt(1, 1), attempt(1, 2)
        give(hand, 1, newer, 100)
        self.assertEqual(outcomes(give(hand, 2, older, 101)), [Outcome.ABANDONED])

    def test_unknown_attempts_change_nothing(self) -> None:
        hand, stranger = hand_of(1), attempt(9, 1)
        self.assertEqual(hand.cancelled(stranger, "", 100), [])
        self.assertEqual(hand.ended(stranger, SUCCEEDED, False, 100), [])
        hand.acknowledged(stranger)
        self.assertEqual(len(hand), 0)


class AttemptTest(unittest.TestCase):
    def test_an_attempt_survives_the_wire_with_its_nanoseconds(self) -> None:
        whole = Attempt(RunKey(str(uuid.uuid4()), 1_795_942_800, 123), 2, 1 << 60)
        self.assertEqual(Attempt.read(whole.to_ref()), whole)

    def test_what_names_no_attempt_is_refused_with_its_field(self) -> None:
        for field, wrong in [
            ("job_id", "invoices"),
            ("scheduled_for", None),
            ("attempt", 0),
            ("token", "-1"),
            ("token", str(2**63)),
            ("token", "²"),
        ]:
            ref = attempt(1, 1).to_ref()
            if wrong is None:
                ref.ClearField("scheduled_for")
            else:
                setattr(ref, field, wrong)
            with self.subTest(field=field, wrong=wrong), self.assertRaisesRegex(InvalidAttemptError, r"^run\."):
                Attempt.read(ref)
        with self.assertRaises(InvalidAttemptError):
            Attempt.read(worker_pb2.RunRef())


if __name__ == "__main__":
    unittest.main()
