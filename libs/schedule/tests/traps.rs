//! Traps that schedulers have fallen into, each as a test: what is asked, and what must not come of it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, Datelike, TimeDelta, Utc, Weekday};
use escapement_schedule::{Definition, plan};
use model::policy::MisfirePolicy;
use std::time::Duration;
use support::{at, following, refused, schedule};

fn due(when: &str, after: &str, count: usize) -> Vec<String> {
    let due = following(&schedule(when, "UTC"), at(after), count);
    due.iter().map(|at| at.format("%m-%d %H:%M").to_string()).collect()
}

#[test]
fn a_zone_in_the_expression_is_refused_whatever_follows_it() {
    for prefix in ["TZ=", "CRON_TZ=", "tz=", "  TZ="] {
        for rest in
            ["", "0", "UTC", "Europe/Rome", " * * * * *", "Europe/Rome 0 9 * * *", "TZ=TZ=", "=", "\t"]
        {
            let messages = refused(&format!("{prefix}{rest}"));
            assert!(messages[0].contains("timezone field"), "{prefix}{rest}: {messages:?}");
        }
    }
}

#[test]
fn a_step_past_its_field_means_its_first_value_and_says_so() {
    assert_eq!(due("*/90 * * * *", "2025-03-20T10:10:00Z", 3), ["03-20 11:00", "03-20 12:00", "03-20 13:00"]);
    assert_eq!(due("*/60 * * * *", "2025-03-20T10:10:00Z", 1), ["03-20 11:00"]);
    assert_eq!(due("0 */25 * * *", "2025-03-20T10:10:00Z", 2), ["03-21 00:00", "03-22 00:00"]);
    assert_eq!(due("0 0 */32 * *", "2025-03-20T10:10:00Z", 2), ["04-01 00:00", "05-01 00:00"]);
    assert_eq!(due("0/100 0/100 * * *", "2025-03-20T10:10:00Z", 2), ["03-21 00:00", "03-22 00:00"]);
    assert_eq!(schedule("*/90 * * * *", "UTC").describe(), "Minute 0 of every hour, UTC time");
}

#[test]
fn a_value_outside_its_field_is_refused_wherever_it_stands() {
    for when in ["75 * * * *", "75/5 * * * *", "0 25 * * *", "0 25/2 * * *", "0 1-25 * * *", "0-75/5 * * * *"]
    {
        assert!(refused(when)[0].contains(": use 0-"), "{when}");
    }
}

#[test]
fn what_is_glued_to_a_field_is_refused_with_its_text() {
    for (when, shown) in [
        ("*foobar * * * *", "minute *foobar (position 1)"),
        ("foobar * * * *", "minute foobar (position 1)"),
        ("0 5x * * *", "hour 5x (position 3)"),
        ("0 0 * * L5,6", "day-of-week L5 (position 9)"),
        ("0 0 * * 5#", "day-of-week 5# (position 9)"),
    ] {
        assert!(refused(when)[0].starts_with(shown), "{when}: {:?}", refused(when));
    }
}

#[test]
fn a_schedule_saved_within_its_hour_runs_the_rest_of_it() {
    let rest = ["11-29 14:20", "11-29 14:25", "11-29 14:30", "11-29 14:35"];
    assert_eq!(due("*/5 14 * * *", "2026-11-29T14:15:00Z", 4), rest);
}

#[test]
fn a_weekday_is_that_of_the_local_date() {
    for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kolkata"] {
        let mondays = schedule("30 0 * * MON", zone);
        for at in following(&mondays, at("2026-01-01T00:00:00Z"), 60) {
            assert_eq!(mondays.local_time(at).weekday(), Weekday::Mon, "{zone}");
        }
    }
}

#[test]
fn a_stalled_interval_goes_on_at_the_next_beat_of_its_grid() {
    let steady = schedule("@every 10s", "UTC");
    let due = at("2026-01-01T00:01:00Z");
    assert_eq!(steady.next(due + TimeDelta::seconds(35)), Some(due + TimeDelta::seconds(40)));
}

#[test]
fn a_tick_that_drifts_over_a_minute_misses_and_doubles_nothing() {
    let minutely = schedule("* * * * *", "UTC");
    let ticks = [59_990, 60_000, 61_010, 61_500, 119_999, 120_000, 121_000, 179_990, 240_020];
    let mut reached = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(59_000);
    let mut due: Vec<DateTime<Utc>> = Vec::new();
    for tick in ticks {
        let now = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(tick);
        due.extend(minutely.between(reached, now));
        reached = now;
    }
    let expected: Vec<_> = (1..=4).map(|minute| DateTime::UNIX_EPOCH + TimeDelta::minutes(minute)).collect();
    assert_eq!(due, expected);
}

#[test]
fn a_clock_that_jumps_an_hour_replays_only_what_the_policy_says() {
    let steady = schedule("@every 5s", "UTC");
    let (before, after) = (at("2026-01-01T12:00:00Z"), at("2026-01-01T13:00:00Z"));
    let runs = |misfire: MisfirePolicy| {
        let definition = Definition {
            schedule: &steady,
            misfire,
            grace: Duration::from_secs(10),
            catch_up_limit: 1_000,
            catch_up_window: Duration::from_secs(86_400),
            jitter: Duration::ZERO,
            job_seed: "steady",
        };
        let plan = plan(&definition, before, after, after, 10_000);
        let missed: u64 = plan.missed.iter().map(|missed| missed.count).sum();
        (plan.planned.len(), usize::from(plan.late.is_some()) + plan.catch_up.len(), missed)
    };
    // Three are within their grace, 718 are not.
    assert_eq!(runs(MisfirePolicy::Skip), (3, 0, 718));
    assert_eq!(runs(MisfirePolicy::Once), (3, 1, 717));
    assert_eq!(runs(MisfirePolicy::CatchUp), (3, 718, 0));
}
