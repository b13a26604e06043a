//! A newer timezone database: what an older one planned is planned anew, and no local day runs twice.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, NaiveDate, TimeZone, Utc};
use chrono_tz::Tz;
use model::ids::JobId;
use model::job::Definition;
use model::policy::{MisfirePolicy, OverlapPolicy};
use stack::wait::wait_for;
use support::place::Place;
use support::{Cell, LIMIT, each_second};

/// Two zones that changed since the version below: Vancouver no longer turns its clocks back, Casablanca turned them back
/// for good. The tests' day is the 15th of December 2026.
const OLD: &str = "2025b";
const NOW: &str = "2026-12-15T16:59:30Z";

fn daily(schedule: &str, timezone: &str) -> Definition {
    let mut definition = each_second(MisfirePolicy::Once, OverlapPolicy::Forbid);
    (definition.schedule, definition.timezone) = (schedule.to_owned(), timezone.to_owned());
    definition
}

/// What the older database, which is compiled in too, says of a local time of December 2026.
fn by_old_data(timezone: &str, day: u32, hour: u32, minute: u32) -> DateTime<Utc> {
    assert_eq!(chrono_tz::IANA_TZDB_VERSION, OLD, "the test knows the differences of this one");
    let zone: Tz = timezone.parse().expect("a zone");
    let local = NaiveDate::from_ymd_opt(2026, 12, day).unwrap().and_hms_opt(hour, minute, 0).unwrap();
    zone.from_local_datetime(&local).single().expect("an instant").to_utc()
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().expect(text)
}

/// The ledger and the queue as an older ticker left them: a run, over or not, and the cursor behind it.
async fn planned_by_old_data(cell: &Cell, job: JobId, run: DateTime<Utc>, over: bool, next: DateTime<Utc>) {
    let (state, ended) = if over { ("SKIPPED", "esc_now()") } else { ("PLANNED", "NULL") };
    let reason = if over { "'OVERLAP'" } else { "NULL" };
    cell.execute(&format!(
        "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, finished_at, generation, term, origin, state, reason) \
         SELECT id, tenant_id, '{run}', '{run}', {ended}, 1, 1, 'SCHEDULE', '{state}', {reason} FROM job WHERE id = '{job}'"
    ))
    .await;
    if !over {
        cell.execute(&format!(
            "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, start_by, generation, priority, origin, exclusive, queue) \
             SELECT id, tenant_id, '{run}', '{run}', '{run}'::timestamptz + interval '10 s', 1, 0, 'SCHEDULE', true, 'default' \
             FROM job WHERE id = '{job}'"
        ))
        .await;
    }
    cell.execute(&format!("UPDATE job_cursor SET next_fire_at = '{next}' WHERE job_id = '{job}'")).await;
}

async fn stored(cell: &Cell) -> String {
    cell.texts("SELECT version || coalesce(' ' || reached, '') FROM tzdata").await
}

async fn runs(cell: &Cell, job: JobId) -> Vec<DateTime<Utc>> {
    let runs = format!(
        "SELECT to_char(scheduled_for AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM run WHERE job_id = '{job}' \
         ORDER BY scheduled_for"
    );
    cell.texts(&runs).await.split_whitespace().map(instant).collect()
}

async fn cursor(cell: &Cell, job: JobId) -> DateTime<Utc> {
    let cursor = format!(
        "SELECT to_char(next_fire_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM job_cursor WHERE job_id = '{job}'"
    );
    instant(&cell.texts(&cursor).await)
}

/// A cell in which it is time, with partitions.
async fn place() -> Place {
    let place = Place::create().await;
    place.cell.set_clock(NOW).await;
    place.cell.ticker(1).await;
    place
}

#[tokio::test]
async fn a_newer_database_plans_anew_what_an_older_one_planned() {
    let place = place().await;
    let cell = &place.cell;
    cell.execute("UPDATE clock_shift SET shift = shift - interval '10 days'").await;
    let vancouver = cell.create_job("vancouver", &daily("0 9 * * *", "America/Vancouver")).await;
    let casablanca = cell.create_job("casablanca", &daily("30 17 * * *", "Africa/Casablanca")).await;
    let berlin = cell.create_job("berlin", &daily("0 18 * * *", "Europe/Berlin")).await;
    let utc = cell.create_job("utc", &daily("0 17 * * *", "UTC")).await;
    let paused = cell.create_job("paused", &daily("0 9 * * *", "America/Vancouver")).await;
    cell.pause_job(paused).await;
    cell.set_clock(NOW).await;
    let each = cell.create_job("each-second", &daily("* * * * * *", "America/Vancouver")).await;
    let created = cell.now().await;

    let zone = "America/Vancouver";
    planned_by_old_data(cell, vancouver, by_old_data(zone, 15, 9, 0), false, by_old_data(zone, 16, 9, 0))
        .await;
    let zone = "Africa/Casablanca";
    planned_by_old_data(cell, casablanca, by_old_data(zone, 15, 17, 30), true, by_old_data(zone, 16, 17, 30))
        .await;
    let (today, tomorrow) = (instant("2026-12-15T17:00:00Z"), instant("2026-12-16T17:00:00Z"));
    planned_by_old_data(cell, berlin, today, false, tomorrow).await;
    planned_by_old_data(cell, utc, today, false, tomorrow).await;
    cell.execute(&format!("INSERT INTO tzdata (version, changed_at) VALUES ('{OLD}', esc_now())")).await;

    let _ticker = place.start("a");
    place.leader_but("").await;
    let ours = schedule::tzdata_version();
    wait_for(LIMIT, "all plans made anew", async || (stored(cell).await == ours).then_some(())).await;
    wait_for(LIMIT, "a cycle after that", async || {
        (!runs(cell, vancouver).await.is_empty() && place.log("a").contains("Planned anew")).then_some(())
    })
    .await;

    // Nine o'clock has passed by the new reading, and it did not run: missed, and so it runs late.
    assert_eq!(runs(cell, vancouver).await, [instant("2026-12-15T16:00:00Z")]);
    assert_eq!(cell.count("SELECT count(*) FROM run_queue WHERE late").await, 1);
    assert_eq!(cursor(cell, vancouver).await, instant("2026-12-16T16:00:00Z"));
    // Half past five comes again by the new reading; it ran.
    assert_eq!(runs(cell, casablanca).await, [instant("2026-12-15T16:30:00Z")]);
    assert_eq!(cursor(cell, casablanca).await, instant("2026-12-16T17:30:00Z"));
    for job in [berlin, utc] {
        assert_eq!((runs(cell, job).await, cursor(cell, job).await), (vec![today], tomorrow));
    }
    assert!(runs(cell, paused).await.is_empty());
    let now = cell.now().await;
    assert_eq!(cell.unaccounted(each, created, now).await, 0);

    let log = place.log("a");
    let moved: Vec<_> = ["vancouver", "casablanca", "berlin", "utc", "paused", "each-second"]
        .into_iter()
        .filter(|name| {
            log.lines().any(|line| line.contains("another instant") && line.contains(&format!("\"{name}\"")))
        })
        .collect();
    assert_eq!(moved, ["vancouver", "casablanca"], "{log}");
    assert!(place.metrics("a").await.contains("ticker_tzdata_jobs_moved"));
}

#[tokio::test]
async fn what_was_made_anew_before_a_crash_is_not_made_anew_again() {
    let place = place().await;
    let cell = &place.cell;
    let zone = "America/Vancouver";
    let mut jobs = vec![
        cell.create_job("one", &daily("0 9 * * *", zone)).await,
        cell.create_job("two", &daily("0 9 * * *", zone)).await,
    ];
    jobs.sort();
    let old = by_old_data(zone, 16, 9, 0);
    for job in &jobs {
        planned_by_old_data(cell, *job, by_old_data(zone, 15, 9, 0), true, old).await;
    }
    let (ours, reached) = (schedule::tzdata_version(), jobs[0]);
    cell.execute(&format!("INSERT INTO tzdata VALUES (true, '{ours}', esc_now(), '{reached}')")).await;
    let _ticker = place.start("a");
    wait_for(LIMIT, "all plans made anew", async || (stored(cell).await == ours).then_some(())).await;
    assert_eq!(cursor(cell, jobs[0]).await, old);
    assert_eq!(cursor(cell, jobs[1]).await, instant("2026-12-16T16:00:00Z"));
}

#[tokio::test]
async fn an_older_database_changes_nothing_and_says_so() {
    let place = place().await;
    let cell = &place.cell;
    let zone = "America/Vancouver";
    let job = cell.create_job("job", &daily("0 9 * * *", zone)).await;
    let (today, tomorrow) = (by_old_data(zone, 15, 9, 0), by_old_data(zone, 16, 9, 0));
    planned_by_old_data(cell, job, today, false, tomorrow).await;
    cell.execute("INSERT INTO tzdata (version, changed_at) VALUES ('2999z', esc_now())").await;
    let _ticker = place.start("a");
    place.leader_but("").await;
    wait_for(LIMIT, "its complaint", async || place.log("a").contains("2999z: update it").then_some(()))
        .await;
    assert_eq!((stored(cell).await.as_str(), runs(cell, job).await), ("2999z", vec![today]));
    assert_eq!(cursor(cell, job).await, tomorrow);
    let behind = place.metrics("a").await;
    assert!(
        behind.lines().any(|line| line.starts_with("ticker_tzdata_behind") && line.ends_with(" 1")),
        "{behind}"
    );
}

#[tokio::test]
async fn the_first_ticker_says_which_database_it_plans_with() {
    let place = place().await;
    let _ticker = place.start("a");
    place.leader_but("").await;
    wait_for(LIMIT, "a version", async || {
        (stored(&place.cell).await == schedule::tzdata_version()).then_some(())
    })
    .await;
}
