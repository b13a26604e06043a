//! Jobs with random lives against the real database: each occurrence that has a deadline has either succeeded in time, as far
//! as the ledger showed when it was judged, or is told, once, in one alert; unless nobody waits for it any more.
//!
//! Jobs are changed, renamed, paused, resumed and deleted, move to other timezones, calendars and ends; watchdogs are away,
//! crash between two transactions and take over from each other; runs end in every way, some of them in transactions that are
//! committed long after their deadline was judged. What is expected is worked out second by second.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod support;

use chrono::{DateTime, Duration, Utc};
use model::alert::{Cause, Judgement, Seen, judge};
use model::calendar::{CalendarVersion, Calendars};
use model::ids::{JobId, TenantId};
use model::job::Definition;
use model::run::{Phase, Reason};
use schedule::{DateSets, Owner, Schedule};
use std::collections::BTreeMap;
use store::fence::Term;
use support::{Cell, definition, noon, rows};
use watchdog::check::{self, Limits, Memory, Summary};

const JOBS: usize = 40;
const STEPS: i64 = 24;

/// How long jobs live, in seconds, before the watchdog gets the time to judge them.
const LIFE: i64 = STEPS * 30;

/// How much later than its occurrence an end is committed, in seconds, that hangs: it is judged before, or after.
const COMMITTED_LATE: i64 = 40;

/// Numbers that follow from a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).expect("small")).expect("small")
    }
}

/// A calendar that closes the day on which all this happens, and its next version, which does not.
fn calendar(version: i64) -> CalendarVersion {
    CalendarVersion { name: "holidays".to_owned(), version }
}

/// The dates of its versions.
const CALENDAR: [(i64, &str); 2] = [(1, "2026-11-29"), (2, "2026-11-30")];

fn any_definition(dice: &mut Dice) -> Definition {
    let within = [3, 20, 45, 120][dice.below(4)];
    let schedules =
        ["*/10 * * * * *", "*/7 * * * * *", "@every 13s", "* * * * *", "0 * * * *", "3-9 12 * * *"];
    let mut definition = definition(schedules[dice.below(schedules.len())], within);
    definition.alert.disabled = dice.below(6) == 0;
    definition.timezone = ["UTC", "UTC", "Europe/Berlin"][dice.below(3)].to_owned();
    if dice.below(6) == 0 {
        let exclude = vec![calendar([1, 2][dice.below(2)])];
        definition.calendars = Calendars { exclude, ..Calendars::default() };
    }
    if dice.below(8) == 0 {
        definition.ends_at = Some(noon(200 + i64::try_from(dice.below(400)).expect("small")));
    }
    definition
}

/// What a job's owner does next.
async fn live(cell: &Cell, job: JobId, dice: &mut Dice) {
    let row =
        &rows!(cell, "SELECT deleted_at IS NOT NULL, paused_at IS NOT NULL FROM job WHERE id = $1", job.0)[0];
    let (deleted, paused): (bool, bool) = (row.get(0), row.get(1));
    match dice.below(10) {
        _ if deleted => {}
        0 if dice.below(6) == 0 => cell.delete(job).await,
        1..=3 if paused => cell.resume(job, dice.below(2) == 0).await,
        1 => cell.pause(job).await,
        4..=5 => cell.change(job, &any_definition(dice)).await,
        6 => {
            let name = format!("renamed-{}", dice.below(usize::MAX));
            cell.change_name(job, Some(&name), &any_definition(dice)).await;
        }
        _ => {}
    }
}

/// A look of the watchdog.
struct Look {
    /// When, by a clock that stands still meanwhile.
    at: DateTime<Utc>,
    /// What ended late of occurrences through this second was committed by then.
    committed: i64,
}

/// Judges everything that is due, in batches of a random size, some of which a crash interrupts.
async fn look(cell: &Cell, term: Term, committed: i64, dice: &mut Dice, total: &mut Summary) -> Look {
    let limits = Limits { jobs: [3, 100][dice.below(2)], occurrences: [5, 1_000][dice.below(2)] };
    let mut memory = Memory::default();
    loop {
        let transactions = std::cell::Cell::new(1 + dice.below(4));
        let leads = || transactions.replace(transactions.get().saturating_sub(1)) > 0;
        let summary =
            check::run_once(&cell.store, term, limits, &mut memory, leads, &|| None).await.expect("a cycle");
        *total += summary;
        let due = cell.number(
            "SELECT (SELECT count(*) FROM watch_cursor WHERE judge_at <= esc_now()) \
                  + (SELECT count(*) FROM watch_rest WHERE judge_at <= esc_now())",
        );
        if due.await == 0 {
            let at = store::clock::now(&cell.store).await.expect("a clock");
            return Look { at, committed };
        }
    }
}

/// A definition that was in force.
struct Revision {
    from: DateTime<Utc>,
    /// Nobody waits for what is due, or has its deadline, while it is in force.
    withdraws: bool,
    definition: Definition,
    schedule: Schedule,
}

async fn history(cell: &Cell, job: JobId) -> Vec<Revision> {
    let mut dates = DateSets::default();
    for (version, date) in CALENDAR {
        dates.add((TenantId::DEFAULT, calendar(version)), [date.parse().expect("a date")]);
    }
    let created_at = rows!(cell, "SELECT created_at FROM job WHERE id = $1", job.0)[0].get(0);
    let owner = Owner { tenant: TenantId::DEFAULT, job, created_at };
    let rows = rows!(
        cell,
        "SELECT in_force_from, action = 'DELETED' OR paused, definition::text FROM job_revision WHERE job_id = $1 \
         ORDER BY generation",
        job.0
    );
    let revision = rows.iter().map(|row| {
        let definition: Definition = serde_json::from_str(row.get(2)).expect("a definition");
        let schedule = Schedule::of_job(&definition, owner, &dates).expect("a schedule");
        let withdraws = row.get::<_, bool>(1) || definition.success_within().is_none();
        Revision { from: row.get(0), withdraws, definition, schedule }
    });
    revision.collect()
}

/// What the ledger has of any job at a second, as [`fill`] writes it, once the late commits through `committed` are made.
fn ledger(second: i64, committed: i64) -> Seen {
    let ended =
        |phase, reason, after| Seen { phase: Some(phase), reason, finished_at: Some(noon(second + after)) };
    match (second / 5) % 7 {
        0 => Seen::NOTHING,
        1 => ended(Phase::Failed, Some(Reason::WorkFailed), 1),
        2 => ended(Phase::Cancelled, Some(Reason::Paused), 1),
        3 => ended(Phase::Succeeded, None, 50),
        4 if second > committed => Seen { phase: Some(Phase::Waiting), ..Seen::NOTHING },
        _ => ended(Phase::Succeeded, None, 1),
    }
}

async fn fill(cell: &Cell, jobs: &[JobId]) {
    let jobs: Vec<_> = jobs.iter().map(|job| job.0).collect();
    rows!(
        cell,
        "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, token, attempt, origin, state, reason, \
                          finished_at) \
         SELECT j, '00000000-0000-4000-8000-000000000001', t, t, 1, 1, 1, 1, 'SCHEDULE', \
                (ARRAY['FAILED', 'CANCELLED', 'SUCCEEDED', 'PLANNED', 'SUCCEEDED', 'SUCCEEDED'])[s / 5 % 7]::run_state, \
                (ARRAY['WORK_FAILED', 'PAUSED'])[s / 5 % 7]::run_reason, \
                t + (ARRAY[1, 1, 50, NULL, 1, 1])[s / 5 % 7] * interval '1 second' \
         FROM unnest($1::uuid[]) j, generate_series(1, $3::int) s, \
              LATERAL (SELECT $2::timestamptz + s * interval '1 second' AS t) x \
         WHERE s / 5 % 7 > 0",
        jobs,
        noon(0),
        i32::try_from(LIFE + 600).expect("small")
    );
}

/// Commits the ends of the occurrences through `second` that were written a second after them.
async fn commit_late(cell: &Cell, second: i64) {
    let ended = "UPDATE run SET state = 'SUCCEEDED', finished_at = scheduled_for + interval '1 second' \
                 WHERE state = 'PLANNED' AND scheduled_for <= $1";
    rows!(cell, ended, noon(second));
}

/// What should be told of a job, by looking at each second: the causes of its verdicts; and how many were judged.
fn expected(history: &[Revision], looks: &[Look]) -> (BTreeMap<DateTime<Utc>, Cause>, usize) {
    let in_force = |instant: DateTime<Utc>| history.iter().rev().find(|revision| revision.from <= instant);
    let (mut told, mut judged) = (BTreeMap::new(), 0);
    for second in 1..LIFE + 600 {
        let occurrence = noon(second);
        let Some(revision) = history.iter().rev().find(|revision| revision.from < occurrence) else {
            continue;
        };
        if revision.withdraws || revision.schedule.previous(occurrence) != Some(occurrence) {
            continue;
        }
        let within = revision.definition.success_within().expect("watched");
        let deadline = occurrence + Duration::from_std(within).expect("in range");
        let judge_at = deadline + Duration::seconds(3);
        let Some(look) = looks.iter().find(|look| judge_at <= look.at) else { continue };
        if in_force(deadline).is_some_and(|revision| revision.withdraws) {
            continue;
        }
        judged += 1;
        let awaited = in_force(look.at).is_some_and(|revision| !revision.withdraws);
        if let (Judgement::Missed(cause), true) = (judge(ledger(second, look.committed), deadline), awaited) {
            told.insert(occurrence, cause);
        }
    }
    (told, judged)
}

async fn verdicts(cell: &Cell, job: JobId) -> BTreeMap<DateTime<Utc>, Cause> {
    let rows = rows!(cell, "SELECT occurrence, cause FROM verdict WHERE job_id = $1", job.0);
    rows.iter().map(|row| (row.get(0), row.get::<_, &str>(1).parse().expect("a cause"))).collect()
}

async fn lives(seed: u64) {
    let cell = Cell::create().await;
    let mut dice = Dice(seed);
    let mut jobs = Vec::new();
    cell.stop_clock().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    for (version, date) in CALENDAR {
        cell.calendar("holidays", version, &[date]).await;
    }
    for number in 0..JOBS {
        jobs.push(cell.job(&format!("job-{number}"), &any_definition(&mut dice)).await);
    }
    fill(&cell, &jobs).await;
    let (mut term, mut looks, mut total) = (cell.lead(1).await, Vec::new(), Summary::default());
    for step in 1..=STEPS {
        cell.stand_at(step * 30_000).await;
        let committed = step * 30 - COMMITTED_LATE;
        commit_late(&cell, committed).await;
        for job in &jobs {
            live(&cell, *job, &mut dice).await;
        }
        match dice.below(4) {
            0 => term = cell.lead(step + 1).await,
            1 => {} // nobody watches for a while
            _ => {
                cell.stand_at(step * 30_000 + 15_200).await;
                looks.push(look(&cell, term, committed, &mut dice, &mut total).await);
            }
        }
    }
    cell.stand_at((LIFE + 400) * 1_000 + 200).await;
    let committed = LIFE;
    commit_late(&cell, committed).await;
    looks.push(look(&cell, term, committed, &mut dice, &mut total).await);

    let (mut judged, mut told) = (0, 0);
    for (number, job) in jobs.iter().enumerate() {
        let (expected, seen) = expected(&history(&cell, *job).await, &looks);
        assert_eq!(verdicts(&cell, *job).await, expected, "job-{number} of seed {seed}");
        judged += seen;
        told += expected.len();
    }
    assert_eq!((total.judged, total.missed), (judged, told), "nothing twice, of seed {seed}");
    assert!(told > 200 && total.withdrawn > 50, "the lives of seed {seed} show little: {total:?}");
    assert_paged_once(&cell, &total, seed).await;
}

/// Each occurrence is in one alert, and each alert one page and at most one end.
async fn assert_paged_once(cell: &Cell, total: &Summary, seed: u64) {
    for (what, wrong) in [
        (
            "each occurrence of a job is in one of its alerts",
            "SELECT count(*) FROM (SELECT job_id, count(*) AS missed FROM verdict GROUP BY job_id) v
             FULL JOIN (SELECT job_id, sum(count) AS told FROM alert GROUP BY job_id) a USING (job_id)
             WHERE v.missed IS DISTINCT FROM a.told",
        ),
        (
            "each alert has one beginning, and an end if it ended",
            "SELECT count(*) FROM alert a
             WHERE (SELECT count(*) FROM alert_event e WHERE e.alert_id = a.id AND e.what = 'OPENED') <> 1
                OR (SELECT count(*) FROM alert_event e WHERE e.alert_id = a.id AND e.what = 'RESOLVED')
                   <> (a.resolved_at IS NOT NULL)::int",
        ),
        (
            "each alert is one page, and its end another",
            "SELECT count(*) FROM alert a
             WHERE (SELECT count(*) FROM alert_delivery d WHERE d.alert_id = a.id AND d.event = 'OPENED') <> 1
                OR (SELECT count(*) FROM alert_delivery d WHERE d.alert_id = a.id AND d.event = 'RESOLVED')
                   <> (a.resolved_at IS NOT NULL)::int",
        ),
    ] {
        assert_eq!(cell.number(wrong).await, 0, "{what}, of seed {seed}");
    }
    let alerts = cell.number("SELECT count(*) FROM alert").await;
    assert_eq!(i64::try_from(total.opened), Ok(alerts), "of seed {seed}");
}

#[tokio::test]
async fn each_occurrence_is_judged_once_and_told_unless_nobody_waits_for_it() {
    for seed in [88_172_645_463_325_252, 4_711, 20_261_129] {
        lives(seed).await;
    }
}
