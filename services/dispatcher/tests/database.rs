//! A database that goes away, and one that is not the one it was.

mod support;

use election::{Mark, mark};
use rpc::v1::completed::Outcome;
use rpc::v1::completion_ack::Answer;
use rpc::v1::to_worker;
use stack::postgres::{Options, Postgres, Stop};
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use store::{Settings, Store};
use support::{Cell, LEASE, LIMIT, an_assignment, attempt};

/// Longer than a lease without PostgreSQL: no running job is given away, during it nor at its end. Neither that of a
/// worker that stays connected, nor that of one whose connection breaks and which nobody can take in meanwhile.
#[tokio::test]
async fn an_outage_of_the_database_costs_no_running_job() {
    let folder = TempFolder::create("postgres").expect("a folder");
    let options = Options::for_tests();
    let mut postgres = Postgres::start(folder.path(), options).await.expect("PostgreSQL");
    let cell = Cell::on(&postgres).await;
    let (one, _other) = (cell.dispatcher("one").await, cell.dispatcher("other").await);
    let (mut cut, welcome) = one.worker(&cell, 1).await;
    let cut_key = cell.due(cell.job(60_000).await, 1).await;
    let (_, cut_run) = attempt(&cut.assignment().await);
    let (mut worker, _) = one.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);

    postgres.stop(Stop::Immediate).await.expect("stopped");
    drop(cut);
    wait_for(LIMIT, "a renewal older than a lease", async || {
        let (age, _) = worker.heartbeat(1, std::slice::from_ref(&run)).await;
        (age > LEASE + LEASE / 2).then_some(())
    })
    .await;
    // Reported into the outage: recorded, and answered, once it is over.
    worker.complete(&run, Outcome::Succeeded).await;
    postgres.start_again().await.expect("started");
    assert_eq!(worker.answer().await, Answer::Recorded);
    cell.until_renewed_twice().await;
    let (mut cut, again) = one.hello(&cell, 1, welcome.session_id, vec![cut_run.clone()]).await;
    assert!(again.resumed);
    cut.complete(&cut_run, Outcome::Succeeded).await;
    assert_eq!(cut.answer().await, Answer::Recorded);
    assert_eq!((cell.state(key).await, cell.state(cut_key).await), ("SUCCEEDED".into(), "SUCCEEDED".into()));
    assert_eq!(cell.count("SELECT count(*) FROM run_outcome").await, 0, "no attempt was lost");
}

/// Somebody else has every connection that the server gives.
#[tokio::test]
async fn without_a_free_connection_everything_waits_and_nothing_is_lost_or_doubled() {
    let folder = TempFolder::create("postgres").expect("a folder");
    let options = Options::for_tests().setting("max_connections", "30");
    let postgres = Postgres::start(folder.path(), options).await.expect("PostgreSQL");
    let cell = Cell::on(&postgres).await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 2).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);

    let settings = Settings {
        connections_max: 30,
        connect_timeout: std::time::Duration::from_millis(300),
        ..cell.store.settings().clone()
    };
    let hoard = Store::new(settings).expect("sound settings");
    let mut held = Vec::new();
    let theirs = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'escapement-dispatcher'";
    wait_for(LIMIT, "a dispatcher without a connection", async || {
        cell.meddle(&theirs.replace("count(*)", "pg_terminate_backend(pid)")).await;
        while let Ok(client) = hoard.client("hoard").await {
            held.push(client);
        }
        (cell.count(theirs).await == 0).then_some(())
    })
    .await;
    worker.complete(&run, Outcome::Succeeded).await;
    let next = cell.due(cell.job(60_000).await, 0).await;
    wait_for(LIMIT, "a clear complaint", async || {
        let log = dispatcher.child.log_tail();
        let clear =
            log.contains("Reports wait for the database") && log.contains("no connection to PostgreSQL for");
        clear.then_some(())
    })
    .await;
    drop(held);
    hoard.close();
    let mut answered = false;
    let claimed = worker
        .beat_until((1, std::slice::from_ref(&run)), "the next run", |message| {
            answered |= matches!(&message, to_worker::Message::CompletionAck(ack) if ack.answer() == Answer::Recorded);
            an_assignment(message)
        })
        .await;
    assert_eq!(attempt(&claimed).0.key, next);
    if !answered {
        assert_eq!(worker.answer().await, Answer::Recorded);
    }
    assert_eq!(cell.state(key).await, "SUCCEEDED");
    assert_eq!(cell.count("SELECT count(*) FROM run_outcome").await, 0, "no attempt was lost");
}

/// etcd remembers tokens that the database does not: it was restored from a backup.
#[tokio::test]
async fn a_database_that_forgot_tokens_gets_a_higher_epoch_before_anything_is_claimed() {
    let cell = Cell::create().await;
    let database = store::epoch::read(&cell.store).await.expect("an epoch");
    let remembered = Mark {
        system_identifier: database.server.system_identifier.to_string(),
        timeline: database.server.timeline.unsigned_abs(),
        epoch: 9,
        highest_token: (9 << 44) + 1_000,
    };
    assert!(mark::write_if(&cell.etcd().await, None, &remembered).await.expect("marked"));
    cell.due(cell.job(60_000).await, 1).await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let (named, _) = attempt(&worker.assignment().await);
    assert_eq!(named.token.epoch(), 10);
    assert!(named.token.as_i64() > remembered.highest_token);
}

/// The database fails over under a running dispatcher: the claim itself notices.
#[tokio::test]
async fn a_failover_under_a_running_dispatcher_raises_the_epoch_and_work_goes_on() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 2).await;
    cell.due(cell.job(60_000).await, 1).await;
    let (first, run) = attempt(&worker.assignment().await);
    // As after a promotion: the server's timeline is no longer the one that the epoch was made for.
    cell.meddle("UPDATE epoch SET timeline = timeline - 1").await;
    cell.due(cell.job(60_000).await, 0).await;
    let assignment = worker.beat_until((1, &[run]), "a run of the next epoch", an_assignment).await;
    let (second, _) = attempt(&assignment);
    assert_eq!(second.token.epoch(), first.token.epoch() + 1);
    let (noted, _) = mark::read(&cell.etcd().await).await.expect("read").expect("marked");
    assert_eq!(noted.epoch, second.token.epoch());
}

/// Two dispatchers that start at once on an empty cell agree on one epoch.
#[tokio::test]
async fn dispatchers_that_start_together_come_to_one_epoch() {
    let cell = Cell::create().await;
    let _both = tokio::join!(cell.dispatcher("one"), cell.dispatcher("other"));
    assert_eq!(cell.count("SELECT epoch::bigint FROM epoch").await, 1);
}
