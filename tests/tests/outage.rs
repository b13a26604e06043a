//! Outages: what was missed while nobody planned, handed out or worked is a run or a recorded misfire, exactly.

use harness::{Cell, PATIENCE, instant, job, names, noop};
use serde_json::{Value, json};
use stack::dev::Role;
use stack::postgres::Stop;
use stack::wait::wait_for;
use std::time::{Duration, Instant};

/// Jobs of all policies at 1 s, 1 min and 1 h, by name.
const POLICIES: [&str; 3] = ["SKIP", "ONCE", "CATCH_UP"];
const SCHEDULES: [(&str, &str); 3] =
    [("second", "* * * * * *"), ("minute", "* * * * *"), ("hour", "0 * * * *")];

fn with_policies(name: &str, schedule: &str, misfire: &str, overlap: &str) -> Value {
    let mut job = job(name, schedule, noop());
    job["misfire"] = json!({"policy": misfire, "grace": "10s", "catchUpLimit": 30, "catchUpPerSecond": 50});
    job["overlap"] = json!(overlap);
    job["alert"] = json!({"disabled": true});
    job
}

/// A job for each policy and schedule; each that catches up in two ways.
async fn create_all(cell: &Cell) {
    for policy in POLICIES {
        for (unit, schedule) in SCHEDULES {
            let name = format!("{unit}-{}", policy.to_lowercase().replace('_', "-"));
            cell.api.create(with_policies(&name, schedule, policy, "ALLOW")).await;
            if policy == "CATCH_UP" {
                let name = format!("{name}-one-by-one");
                cell.api.create(with_policies(&name, schedule, policy, "FORBID")).await;
            }
        }
    }
}

/// Moves the cell's clock ahead: for the database, so much time has passed.
async fn pass(cell: &mut Cell, seconds: i64) {
    cell.sql(&format!("UPDATE clock_shift SET shift = shift + {seconds} * interval '1 second'")).await;
}

async fn now(cell: &mut Cell) -> String {
    cell.sql("SELECT esc_now()").await
}

/// Waits until everything up to now is decided, and what was not handed out too.
async fn all_decided(cell: &mut Cell) {
    let behind = "SELECT (SELECT count(*) FROM job_cursor WHERE next_fire_at <= esc_now()) \
                       + (SELECT count(*) FROM run_queue WHERE start_by < esc_now() - interval '3 seconds')";
    wait_for(PATIENCE, "all occurrences decided", async || (cell.count(behind).await == 0).then_some(()))
        .await;
}

/// Asserts that every occurrence that the definitions in force asked for, through now, is exactly one of a run or
/// counted as missed. What they ask for is worked out here from the revisions, by the schedules' texts.
async fn assert_all_accounted_for(cell: &mut Cell, what: &str) {
    all_decided(cell).await;
    let through = cell.sql("SELECT date_trunc('second', esc_now())").await;
    let expected = format!(
        "span AS ( \
           SELECT job_id, definition ->> 'schedule' AS schedule, in_force_from AS after, \
                  paused OR coalesce(definition #>> '{{calendars,exclude,0,version}}' = '2', false) AS rests, \
                  least(coalesce(lead(in_force_from) OVER (PARTITION BY job_id ORDER BY generation), '{through}'), '{through}') AS through \
           FROM job_revision), \
         expected AS ( \
           SELECT s.job_id, t.at FROM span s, LATERAL ( \
             SELECT g AS at, extract(second FROM g)::int AS second, extract(minute FROM g)::int AS minute \
             FROM generate_series(date_trunc('second', s.after) + interval '1 second', s.through, interval '1 second') g) t \
           WHERE NOT s.rests AND CASE s.schedule WHEN '* * * * * *' THEN true WHEN '*/2 * * * * *' THEN t.second % 2 = 0 \
             WHEN '1-59/2 * * * * *' THEN t.second % 2 = 1 WHEN '* * * * *' THEN t.second = 0 \
             WHEN '0 * * * *' THEN t.second = 0 AND t.minute = 0 END)"
    );
    let doubtful = format!(
        "WITH {expected} SELECT count(*) FROM expected e LEFT JOIN run r ON r.job_id = e.job_id AND r.scheduled_for = e.at \
         WHERE (r.job_id IS NULL) <> EXISTS (SELECT FROM misfire m WHERE m.job_id = e.job_id AND e.at BETWEEN m.first AND m.last)"
    );
    assert_eq!(cell.count(&doubtful).await, 0, "{what}");
    let sums = format!(
        "WITH {expected} SELECT (SELECT count(*) FROM expected) || ' ' || \
           (SELECT count(*) FROM run WHERE scheduled_for <= '{through}') + (SELECT coalesce(sum(count), 0) FROM misfire WHERE last <= '{through}')"
    );
    let sums = cell.sql(&sums).await;
    let (expected, accounted) = sums.split_once(' ').expect("two numbers");
    assert_eq!(expected, accounted, "{what}: occurrences, and runs with those counted as missed");
}

/// Why runs that were due between the two instants were not handed out, and occurrences not planned. What ended because a
/// backlog had grown beyond its limit is left out: it depends on the moment.
async fn causes(cell: &mut Cell, from: &str, through: &str) -> (String, String) {
    let of = |table: &str, instant: &str| {
        format!(
            "SELECT coalesce(string_agg(DISTINCT cause::text, ' ' ORDER BY cause::text), '') FROM {table} \
             WHERE {instant} > '{from}'::timestamptz + interval '5 seconds' AND {instant} < '{through}'::timestamptz - interval '30 seconds'"
        )
    };
    let runs = cell.sql(&of("run_outcome", "cause <> 'LIMIT' AND scheduled_for")).await;
    (runs, cell.sql(&of("misfire", "first")).await)
}

/// How many runs of `job` that were due between the two instants are there to run, or have.
async fn kept(cell: &mut Cell, job: &str, from: &str, through: &str) -> i64 {
    let statement = format!(
        "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = '{job}' AND r.state IN ('PLANNED', 'SUCCEEDED') \
           AND r.scheduled_for BETWEEN '{from}'::timestamptz + interval '30 seconds' AND '{through}'::timestamptz - interval '15 seconds'"
    );
    cell.count(&statement).await
}

async fn assert_policies(cell: &mut Cell, what: &str, from: &str, through: &str) {
    let skipped = kept(cell, "second-skip", from, through).await;
    assert_eq!(skipped, 0, "{what}: SKIP runs none");
    assert!(kept(cell, "second-once", from, through).await <= 1, "{what}: ONCE runs the latest");
    for name in ["second-catch-up", "second-catch-up-one-by-one"] {
        // Of the newest thirty, some are within their grace, or were planned after the outage.
        let caught_up = kept(cell, name, from, through).await;
        assert!((10..=30).contains(&caught_up), "{what}: {name} runs the newest thirty, here {caught_up}");
    }
}

fn kill_all(cell: &mut Cell, role: Role) {
    for name in names(&cell.stack, role) {
        cell.stack.service(&name).expect("a service").process().kill().expect("killed");
    }
}

async fn restart_all(cell: &mut Cell, role: Role) {
    for name in names(&cell.stack, role) {
        cell.stack.restart(&name).await.expect("it starts again");
    }
}

async fn an_hour_without_any_ticker(cell: &mut Cell) {
    kill_all(cell, Role::Ticker);
    let from = now(cell).await;
    pass(cell, 3_600).await;
    restart_all(cell, Role::Ticker).await;
    let through = now(cell).await;
    assert_all_accounted_for(cell, "without any ticker").await;
    assert_policies(cell, "without any ticker", &from, &through).await;
    let (_, unplanned) = causes(cell, &from, &through).await;
    assert_eq!(unplanned, "NO_TICKER");
}

async fn an_hour_without_any_dispatcher(cell: &mut Cell) {
    kill_all(cell, Role::Dispatcher);
    let from = now(cell).await;
    // The ticker goes on: time passes in steps that it follows.
    let ahead = "SELECT count(*) FROM job_cursor WHERE next_fire_at <= esc_now() + interval '590 seconds'";
    for _ in 0..7 {
        pass(cell, 540).await;
        wait_for(PATIENCE, "plans ahead", async || (cell.count(ahead).await == 0).then_some(())).await;
    }
    let through = now(cell).await;
    restart_all(cell, Role::Dispatcher).await;
    assert_all_accounted_for(cell, "without any dispatcher").await;
    assert_policies(cell, "without any dispatcher", &from, &through).await;
    let (waited, unplanned) = causes(cell, &from, &through).await;
    assert_eq!((waited.as_str(), unplanned.as_str()), ("NO_DISPATCHER", ""), "all were planned");
}

async fn an_hour_without_the_database(cell: &mut Cell) {
    let from = now(cell).await;
    let stopped = Instant::now();
    cell.stack.postgres().stop(Stop::Fast).await.expect("stopped");
    wait_for(PATIENCE, "everybody to have noticed", async || {
        (stopped.elapsed() > Duration::from_secs(4)).then_some(())
    })
    .await;
    // Nobody looks at the clock between its start and the hour's passing.
    let frozen = [names(&cell.stack, Role::Ticker), names(&cell.stack, Role::Dispatcher)].concat();
    for name in &frozen {
        cell.stack.service(name).expect("a service").process().stop().expect("frozen");
    }
    cell.stack.postgres().start_again().await.expect("started");
    pass(cell, 3_600).await;
    for name in &frozen {
        cell.stack.service(name).expect("a service").process().cont().expect("thawed");
    }
    let through = now(cell).await;
    assert_all_accounted_for(cell, "without the database").await;
    assert_policies(cell, "without the database", &from, &through).await;
    let (waited, unplanned) = causes(cell, &from, &through).await;
    assert_eq!((waited.as_str(), unplanned.as_str()), ("DATABASE", "DATABASE"));
}

#[tokio::test]
async fn an_hour_without_tickers_dispatchers_or_database_leaves_every_occurrence_accounted_for() {
    let ticker = "clock_jump_guard_ms = 0\nlookahead_ms = 600000\nplan_every_ms = 200";
    let dispatcher = "clock_jump_guard_ms = 0";
    let mut cell = Cell::start_with(|options| {
        options.setting(Role::Ticker, ticker).setting(Role::Dispatcher, dispatcher)
    })
    .await;
    cell.leader().await;
    create_all(&cell).await;
    cell.api.wait_for_runs("second-once", "SUCCEEDED", 3).await;
    an_hour_without_any_ticker(&mut cell).await;
    an_hour_without_any_dispatcher(&mut cell).await;
    an_hour_without_the_database(&mut cell).await;
    // And it goes on.
    let since = now(&mut cell).await;
    let on_time = format!(
        "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'second-once' AND r.state = 'SUCCEEDED' AND r.scheduled_for > '{since}'"
    );
    wait_for(PATIENCE, "runs in time", async || (cell.count(&on_time).await >= 5).then_some(())).await;
    assert_all_accounted_for(&mut cell, "afterwards").await;
    cell.stop().await;
}

async fn until(since: Instant, seconds: u64) {
    wait_for(PATIENCE, "time to pass", async || {
        (since.elapsed() >= Duration::from_secs(seconds)).then_some(())
    })
    .await;
}

/// Each in its real time: the only wait for a time that passes by itself.
#[tokio::test]
async fn changes_and_a_restart_during_ninety_seconds_without_a_ticker_lose_nothing() {
    // Planned at most 40 seconds ahead, so that the rest of the 90 is not.
    let mut cell = Cell::start_with(|options| options.setting(Role::Ticker, "lookahead_ms = 20000")).await;
    cell.leader().await;
    let holidays = |dates: Value| json!({"name": "holidays", "dates": dates});
    let never = json!(["2000-01-01"]);
    let today = chrono::Utc::now().date_naive();
    let all = [today.pred_opt().expect("a day"), today, today.succ_opt().expect("a day")];
    let all = json!(all.map(|day| day.to_string()));
    cell.api.post("/v1/calendars", holidays(never.clone())).await.expect("a calendar");
    create_all(&cell).await;
    for policy in POLICIES {
        let name = |what: &str| format!("{what}-{}", policy.to_lowercase().replace('_', "-"));
        cell.api.create(with_policies(&name("edited"), "*/2 * * * * *", policy, "ALLOW")).await;
        cell.api.create(with_policies(&name("paused"), "* * * * * *", policy, "FORBID")).await;
        let mut closed = with_policies(&name("closed"), "* * * * * *", policy, "ALLOW");
        closed["calendars"] = json!({"exclude": ["holidays"]});
        cell.api.create(closed).await;
    }
    cell.api.wait_for_runs("second-once", "SUCCEEDED", 3).await;
    kill_all(&mut cell, Role::Ticker);
    let gone = Instant::now();

    let each = |what: &'static str| {
        POLICIES.map(|policy| format!("{what}-{}", policy.to_lowercase().replace('_', "-")))
    };
    until(gone, 50).await; // by now the last seconds are planned by nobody
    edit_all(&cell, &each("edited"), "1-59/2 * * * * *").await;
    for name in each("paused") {
        cell.api.post(&format!("/v1/jobs/{name}:pause"), json!({"reason": "a test"})).await.expect("paused");
    }
    cell.api.put("/v1/calendars/holidays", holidays(all)).await.expect("closed");
    until(gone, 60).await;
    edit_all(&cell, &each("edited"), "* * * * * *").await;
    cell.api.put("/v1/calendars/holidays", holidays(never)).await.expect("open again");
    cell.stack.postgres().restart(Stop::Immediate).await.expect("restarted");
    until(gone, 70).await;
    for name in each("paused") {
        let resumed = cell.api.post(&format!("/v1/jobs/{name}:resume"), json!({})).await.expect("resumed");
        assert!(instant(&resumed, "updateTime") > instant(&resumed, "createTime"));
    }
    until(gone, 90).await;
    // A failover in the middle of it: the first to lead is killed as soon as it does.
    cell.stack.restart("ticker-1").await.expect("it starts again");
    let leads = "SELECT count(*) FROM term WHERE role = 'ticker' AND name = 'ticker-1' AND ended_at IS NULL \
                   AND began_at > esc_now() - interval '20 seconds'";
    wait_for(PATIENCE, "a leader", async || (cell.count(leads).await == 1).then_some(())).await;
    cell.stack.service("ticker-1").expect("a ticker").process().kill().expect("killed");
    restart_all(&mut cell, Role::Ticker).await;
    assert_all_accounted_for(&mut cell, "after 90 seconds, changes, a failover and a restart").await;
    let missed = "SELECT coalesce(sum(count), 0)::bigint FROM misfire";
    assert!(cell.count(missed).await > 100, "the test is about occurrences that nobody planned");
    cell.stop().await;
}

async fn edit_all(cell: &Cell, names: &[String], schedule: &str) {
    for name in names {
        let mut job = cell.api.get(&format!("/v1/jobs/{name}")).await.expect("the job");
        job["schedule"] = json!(schedule);
        cell.api.put(&format!("/v1/jobs/{name}"), job).await.expect("edited");
    }
}

#[tokio::test]
async fn runs_that_no_worker_took_follow_the_misfire_policy() {
    let mut cell = Cell::start_with(|options| stack::dev::Options { agents: 0, ..options }).await;
    cell.leader().await;
    create_all(&cell).await;
    let missed = "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'second-skip' AND r.state = 'SKIPPED' AND r.reason = 'MISSED'";
    wait_for(PATIENCE, "missed rows", async || (cell.count(missed).await >= 5).then_some(())).await;
    let late = "SELECT count(*) FROM run_queue q JOIN job j ON j.id = q.job_id WHERE j.name = 'second-once' AND q.late";
    wait_for(PATIENCE, "one late row", async || (cell.count(late).await == 1).then_some(())).await;
    let superseded = "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'second-once' AND r.reason = 'SUPERSEDED'";
    wait_for(PATIENCE, "superseded rows", async || (cell.count(superseded).await >= 3).then_some(())).await;
    cell.stack.add(Role::Agent).await.expect("an agent");
    let runs = cell.api.wait_for_runs("second-catch-up", "SUCCEEDED", 20).await;
    let lateness = |run: &Value| run["latenessMs"].as_str().and_then(|ms| ms.parse::<i64>().ok());
    let waited = "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'second-catch-up' \
                  AND r.state = 'SUCCEEDED' AND r.accepted_at > r.scheduled_for + interval '10 seconds'";
    assert!(
        cell.count(waited).await > 0,
        "none of those that waited beyond their grace ran: {:?}",
        runs.iter().map(lateness).collect::<Vec<_>>()
    );
    cell.stop().await;
}
