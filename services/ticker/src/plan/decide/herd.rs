//! Jitter at the planner's hand: a herd of jobs is spread, the same way each time, and never past its next occurrence.

use super::tests::moment;
use super::*;
use crate::testing::{cursor, each_second, revision, second};
use model::ids::JobId;
use model::job::Definition;
use std::collections::BTreeMap;

/// In Anchorage second 0 is midnight.
fn jittered(schedule: &str) -> Definition {
    let mut definition = each_second(MisfirePolicy::Once);
    (definition.schedule, definition.timezone) = (schedule.to_owned(), "America/Anchorage".to_owned());
    definition.jitter = Duration::from_secs(600);
    definition
}

/// What the planner makes of job number `n`, at second 0.
fn planned(n: u128, schedule: &str) -> Decision {
    let mut cursor = cursor(0, vec![revision(1, -60, jittered(schedule))]);
    cursor.job_id = JobId(uuid::Uuid::from_u128(n));
    decide(&cursor, &moment(0))
}

fn due(n: u128, schedule: &str) -> DateTime<Utc> {
    planned(n, schedule).fires[0].due_at
}

#[test]
fn a_herd_of_33_000_at_midnight_peaks_at_no_more_than_twice_the_mean() {
    const JOBS: u128 = 33_000;
    let mut seconds: BTreeMap<i64, u32> = BTreeMap::new();
    for n in 0..JOBS {
        let due = due(n, "0 0 * * *");
        assert!((second(0)..second(600)).contains(&due), "{due}");
        *seconds.entry(due.timestamp()).or_default() += 1;
    }
    let (mean, peak) = (55, *seconds.values().max().expect("some"));
    assert!(peak <= 2 * mean, "{peak} in a second");
    assert_eq!(seconds.len(), 600, "no second is left out");
}

#[test]
fn a_jobs_place_is_the_same_after_every_restart() {
    // Numbers that an earlier process has computed.
    let places = [1, 2, 33_000].map(|n| (due(n, "0 0 * * *") - second(0)).num_milliseconds());
    assert_eq!(places, [247_616, 245_244, 308_657]);
}

#[test]
fn no_run_is_due_past_the_next_occurrence() {
    for n in 0..500 {
        let fires = planned(n, "* * * * *").fires;
        assert_eq!(fires.len(), 3);
        for fire in fires {
            let late = fire.due_at - fire.scheduled_for;
            assert!((TimeDelta::zero()..TimeDelta::seconds(60)).contains(&late), "job {n}: {late}");
        }
    }
}
