use super::*;
use crate::testing::Received;
use crate::testing::idle::{Idle, Worker, was_told};
use model::run::Reason;
use model::token::Token;
use rpc::v1::to_worker::Message;

const FAILED: Outcome = Outcome::Failed(Reason::WorkFailed);

fn report(worker: &Worker, attempt: AttemptRef, event: Event) -> Report {
    Report { session: worker.session, attempt, event, heard: Instant::now(), link: Some(worker.link.clone()) }
}

fn ended(worker: &Worker, attempt: AttemptRef, outcome: Outcome) -> Report {
    report(worker, attempt, Event::Ended(outcome, None))
}

/// A worker has started the attempt, `age` ago.
fn started(worker: &Worker, attempt: AttemptRef, age: Duration) -> Report {
    Report { heard: Instant::now() - age, ..report(worker, attempt, Event::Accepted) }
}

fn answers(received: &mut Received) -> Vec<Answer> {
    let messages =
        std::iter::from_fn(|| received.try_recv().ok()).filter_map(|message| message.ok()?.message);
    let answer = |message| match message {
        Message::CompletionAck(ack) => Some(ack.answer()),
        _ => None,
    };
    messages.filter_map(answer).collect()
}

#[tokio::test]
async fn of_two_ends_in_one_group_the_first_is_recorded_and_another_one_is_stale() {
    let idle = Idle::create().await;
    let mut worker = idle.worker().await;
    for (outcomes, expected, end) in [
        ([Outcome::Succeeded, FAILED], [Answer::Recorded, Answer::Stale], "SUCCEEDED"),
        ([Outcome::Succeeded, Outcome::Succeeded], [Answer::Recorded, Answer::Recorded], "SUCCEEDED"),
    ] {
        let attempt = idle.in_hand(&worker).await;
        record(&idle.shared, &outcomes.map(|outcome| ended(&worker, attempt, outcome)))
            .await
            .expect("recorded");
        assert_eq!(answers(&mut worker.received), expected, "{outcomes:?}");
        assert_eq!(idle.cell.state(attempt.key).await, end);
    }
}

#[tokio::test]
async fn the_end_of_another_attempt_is_stale_though_its_group_ends_the_run() {
    let idle = Idle::create().await;
    let mut worker = idle.worker().await;
    let attempt = idle.in_hand(&worker).await;
    let of_another_token = Token::from_i64(attempt.token.as_i64() + 1).expect("positive");
    let others = [AttemptRef { attempt: 2, ..attempt }, AttemptRef { token: of_another_token, ..attempt }];
    let [second, foreign] = others.map(|other| ended(&worker, other, Outcome::Succeeded));
    let own = ended(&worker, attempt, Outcome::Succeeded);
    record(&idle.shared, &[second, own, foreign]).await.expect("recorded");
    assert_eq!(answers(&mut worker.received), [Answer::Stale, Answer::Recorded, Answer::Stale]);
}

#[tokio::test]
async fn an_end_makes_its_slot_free_and_says_so() {
    let idle = Idle::create().await;
    let worker = idle.worker().await;
    let attempt = idle.in_hand(&worker).await;
    assert!(idle.shared.roster().held(worker.session, &attempt).is_some());
    record(&idle.shared, &[ended(&worker, attempt, FAILED)]).await.expect("recorded");
    assert_eq!(idle.shared.roster().held(worker.session, &attempt), None);
    assert!(was_told(&idle.shared.slots).await);
    assert!(was_told(&idle.shared.work).await, "its next attempt may be due");
}

#[tokio::test]
async fn a_start_counts_from_when_it_was_heard_of_and_its_deadline_leaves_time_to_stop() {
    let idle = Idle::create().await;
    let worker = idle.worker().await;
    let (age, attempt) = (Duration::from_secs(5), idle.in_hand(&worker).await);
    // A start is never before its claim.
    idle.cell.meddle("UPDATE run_lease SET claimed_at = claimed_at - interval '1 hour'").await;
    record(&idle.shared, &[started(&worker, attempt, age)]).await.expect("recorded");
    let heard = "SELECT count(*) FROM run_lease WHERE accepted_at <= esc_now() - interval '5 seconds'";
    assert_eq!(idle.cell.count(heard).await, 1, "however long recording took");
    let limit_ms = "SELECT (extract(epoch FROM deadline - accepted_at) * 1000)::bigint FROM run_lease";
    let whole = Duration::from_secs(60) + idle.shared.terms.stop_grace() + SLACK;
    assert_eq!(u128::try_from(idle.cell.count(limit_ms).await), Ok(whole.as_millis()));
}
