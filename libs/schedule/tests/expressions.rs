//! What expressions mean and how wrong ones are explained, beyond the plain fields.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, TimeDelta, Timelike, Utc};
use escapement_schedule::{Oddity, Schedule, Spec};
use model::policy::{DstFold, DstGap};
use std::collections::BTreeSet;
use support::{at, following, parse, refused, schedule};

fn seeded(when: &str, seed: &str) -> Schedule {
    let spec = Spec {
        expression: when,
        timezone: "UTC",
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        seed,
        anchor: at("2026-01-01T00:00:10.7Z"),
    };
    Schedule::parse(&spec).unwrap_or_else(|errors| panic!("{when}: {errors:?}"))
}

fn days(when: &str, after: &str, count: usize) -> Vec<String> {
    let due = following(&schedule(when, "UTC"), at(after), count);
    due.iter().map(|at| at.format("%Y-%m-%d").to_string()).collect()
}

#[test]
fn an_error_names_field_position_value_range_and_what_would_be_right() {
    for (when, message) in [
        ("0 0 * * 8", "day-of-week 8 (position 9): use 0-7, 0 and 7 are Sunday"),
        ("60 * * * *", "minute 60 (position 1): use 0-59"),
        ("  61 * * * * *", "second 61 (position 3): use 0-59"),
        ("0 24 * * *", "hour 24 (position 3): use 0-23"),
        ("0 60/5 * * *", "hour 60 (position 3): use 0-23"),
        ("0 0 1,32 * *", "day-of-month 32 (position 7): use 1-31, L, L-3, LW or 15W"),
        ("0 0 1 13-20 *", "month 13 (position 7): use 1-12 or JAN-DEC"),
        ("0 0 * JANUARY *", "month JANUARY (position 7): use three letters, such as JAN"),
        ("0 0 * * MONDAY", "day-of-week MONDAY (position 9): use three letters, such as MON"),
        ("0 0 0 1 1 * 2500", "year 2500 (position 13): use 1970-2099"),
        ("*/0 * * * *", "minute step 0 (position 3): use 1-999"),
        ("*/1000 * * * *", "minute step 1000 (position 3): use 1-999"),
        ("0 */4294967296 * * *", "hour step 4294967296 (position 5): use 1-999"),
        ("0 22-2 * * *", "hour 22-2 (position 3): a range must rise: write 22-23,0-2"),
        ("0 0 * * 6-1", "day-of-week 6-1 (position 9): a range must rise: write 6-6,0-1"),
        ("/5 * * * *", "minute /5 (position 1): a step needs what it steps through: write */5 or 10-30/5"),
        (", * * * *", "minute \"\" (position 1): a list has an empty item: remove the comma"),
        ("1,,2 * * * *", "minute \"\" (position 3): a list has an empty item: remove the comma"),
        ("*40 * * * *", "minute *40 (position 1): use 0-59"),
        ("123123123 * * * *", "minute 123123123 (position 1): use 0-59"),
        ("-1 * * * *", "minute -1 (position 1): use 0-59"),
        (
            "? * * * *",
            "minute ? (position 1): ? stands for a whole day-of-month or day-of-week field only: use *",
        ),
        ("0 0 L-28 * *", "day-of-month L-28 (position 5): use L-1 to L-27, days that every month has"),
        ("0 0 W15 * *", "day-of-month W15 (position 5): use 1-31, L, L-3, LW or 15W"),
        (
            "0 0 * * L",
            "day-of-week L (position 9): L follows the day: use 5L or FRIL for the last Friday of the month",
        ),
        (
            "0 0 * * 1#6",
            "day-of-week 1#6 (position 9): use a day and which of the month, such as 5#2 or FRI#2, #1 to #5",
        ),
        ("H(0-60) * * * *", "minute 60 (position 5): use 0-59"),
        ("H[0-5] * * * *", "minute H[0-5] (position 1): write H, H(0-5) or H/2"),
        (
            "0 0 30 2 *",
            "day-of-month 30 (position 5) in month 2 with day-of-week * names no date that ever comes: change one \
             of them",
        ),
        ("*/5 6-23 \u{34f}* * *", "U+034F (position 10) is not ASCII: type the expression anew"),
        ("０ 2 * * *", "U+FF10 (position 1) is not ASCII: type the expression anew"),
        ("0\u{a0}2 * * *", "U+00A0 (position 2) is not ASCII: type the expression anew"),
        ("0 0 * * *\0", "U+0000 (position 10) is a control character: type the expression anew"),
        ("0 0 * * *\r\n", "U+000D (position 10) is a control character: type the expression anew"),
        (
            "*/15 ****",
            "2 fields: use 5 (minute, hour, day-of-month, month, day-of-week), 6 (second first) or 7 (year last)",
        ),
        ("TZ=Europe/Rome", "names a zone in the expression: put it into the timezone field"),
        (
            "CRON_TZ=America/New_York 0 9 * * *",
            "names a zone in the expression: put it into the timezone field",
        ),
        ("TZ=TZ=TZ=", "names a zone in the expression: put it into the timezone field"),
        ("@reboot", "@reboot names no time: use @at with a date, or trigger the job"),
        ("@daily 5", "@daily stands alone: remove 5 (position 8)"),
        ("@every 90", "@every 90 (position 8): has no unit: write it like 90s, 5m, 1h30m or 7d"),
        (
            "@every 1.5h",
            "@every 1.5h (position 8): is no duration in whole d, h, m and s, largest first: write it like 90s, 5m, \
             1h30m or 7d",
        ),
        ("@every 0s", "@every 0s (position 8): is shorter than a second: write it like 90s, 5m, 1h30m or 7d"),
        (
            "@every 367d",
            "@every 367d (position 8): is longer than 366 days: write it like 90s, 5m, 1h30m or 7d",
        ),
        (
            "@at 2026-02-30T18:00:00",
            "@at 2026-02-30T18:00:00 (position 5) does not exist: check month, day, hour, minute and second",
        ),
        (
            "@at 2026-12-24T18:00:00+01:00",
            "@at 2026-12-24T18:00:00+01:0… (position 5) has a fixed offset: write it like 2026-12-24T18:00:00, with \
             the zone behind it or in the timezone field",
        ),
        (
            "@at 2026-12-24T18:00:00 Europe/Berln",
            "timezone \"Europe/Berln\" is not in the timezone database: did you mean Europe/Berlin?",
        ),
    ] {
        assert_eq!(refused(when), [message], "{when:?}");
    }
}

#[test]
fn every_wrong_field_is_named_at_once() {
    let fields: Vec<String> = refused("60 60 24 32 13 8 3000")
        .iter()
        .map(|message| message.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(fields, ["second", "minute", "hour", "day-of-month", "month", "day-of-week", "year"]);
}

#[test]
fn days_by_their_place_in_the_month() {
    // A Saturday as the 1st goes forward to Monday the 3rd, never back into July.
    assert_eq!(days("0 0 1W 8 *", "2026-01-01T00:00:00Z", 1), ["2026-08-03"]);
    assert_eq!(days("0 0 LW 5 *", "2026-01-01T00:00:00Z", 1), ["2026-05-29"]);
    assert_eq!(days("0 0 L-1,LW 2 *", "2026-01-01T00:00:00Z", 2), ["2026-02-27", "2027-02-26"]);
    let fourth = ["2024-08-24", "2024-09-28", "2024-10-26", "2024-11-23", "2024-12-28", "2025-01-25"];
    assert_eq!(days("0 0 * * 6#4", "2024-08-02T00:00:00Z", 6), fourth);
    assert_eq!(days("0 0 * * 7#2", "2024-08-02T00:00:00Z", 2), ["2024-08-11", "2024-09-08"]);
    assert_eq!(days("0 0 * * FRIL", "2026-11-29T00:00:00Z", 1), ["2026-12-25"]);
    // Both day fields restricted: either counts.
    assert_eq!(days("0 0 L * 5#1", "2026-11-29T00:00:00Z", 3), ["2026-11-30", "2026-12-04", "2026-12-31"]);
}

#[test]
fn h_is_drawn_from_the_job_and_stays() {
    let nightly = seeded("H H(1-4) * * *", "invoices");
    let due = following(&nightly, at("2026-01-01T00:00:00Z"), 3);
    assert_eq!(due[1] - due[0], TimeDelta::days(1));
    assert!((1..=4).contains(&due[0].hour()));
    assert_eq!(due, following(&seeded("h h(1-4) * * *", "invoices"), at("2026-01-01T00:00:00Z"), 3));

    let minutes: BTreeSet<u32> = (0..500)
        .map(|job| seeded("H * * * *", &format!("job-{job}")))
        .map(|schedule| schedule.next(at("2026-01-01T00:00:00Z")).unwrap().minute())
        .collect();
    assert_eq!(minutes.len(), 60, "jobs spread over the whole hour");
}

#[test]
fn stepped_h_keeps_its_step_from_a_drawn_beginning() {
    for job in 0..50 {
        let quarters = seeded("H/15 * * * *", &format!("job-{job}"));
        let due = following(&quarters, at("2026-01-01T00:00:00Z"), 9);
        assert!(due.windows(2).all(|pair| pair[1] - pair[0] == TimeDelta::minutes(15)), "{due:?}");
        let within = seeded("H(10-40)/15 * * * *", &format!("job-{job}"));
        for at in following(&within, at("2026-01-01T00:00:00Z"), 9) {
            assert!((10..=40).contains(&at.minute()), "{at}");
        }
    }
    assert!(refused("0 0 1 1 * * H")[0].contains("decades"), "seven fields");
}

#[test]
fn every_month_has_the_drawn_day() {
    for job in 0..60 {
        let monthly = seeded("H H H * *", &format!("job-{job}"));
        let due = following(&monthly, at("2026-01-01T00:00:00Z"), 12);
        assert!(due[11] - due[0] < TimeDelta::days(340), "{due:?}");
    }
}

#[test]
fn an_interval_counts_from_its_anchor_whoever_asks_when() {
    let steady = seeded("@every 1h30m", "any");
    let created = at("2026-01-01T00:00:10Z");
    // The anchor has a fraction, occurrences have none.
    assert_eq!(steady.next(created - TimeDelta::days(9)), Some(created));
    assert_eq!(steady.next(created), Some(created + TimeDelta::minutes(90)));
    assert_eq!(steady.next(at("2026-07-01T12:34:56Z")), Some(at("2026-07-01T13:30:10Z")));
    assert_eq!(steady.previous(at("2026-07-01T13:30:10Z")), Some(at("2026-07-01T13:30:10Z")));
    assert_eq!(steady.previous(created - TimeDelta::seconds(1)), None);
}

#[test]
fn a_single_time_comes_once_and_follows_the_clock_change_rules() {
    let once = schedule("@at 2026-12-24T18:00:00 Europe/Berlin", "UTC");
    assert_eq!(following(&once, DateTime::<Utc>::UNIX_EPOCH, 9), [at("2026-12-24T17:00:00Z")]);
    assert_eq!(once.timezone(), "Europe/Berlin");
    let here = schedule("@at 2026-12-24T18:00", "America/New_York");
    assert_eq!(here.previous(at("2027-01-01T00:00:00Z")), Some(at("2026-12-24T23:00:00Z")));
    assert_eq!(
        schedule("@at 2026-12-24T18:00:00Z", "UTC").next(at("2026-01-01T00:00:00Z")),
        Some(at("2026-12-24T18:00:00Z"))
    );

    let gap = "@at 2026-03-08T02:30:00";
    let new_york = |gap_rule, fold| parse(gap, "America/New_York", gap_rule, fold);
    let moved = new_york(DstGap::RunAfter, DstFold::First).unwrap();
    assert_eq!(moved.next(at("2026-01-01T00:00:00Z")), Some(at("2026-03-08T07:00:00Z")));
    let never = new_york(DstGap::Skip, DstFold::First).unwrap_err();
    assert!(never[0].message.contains("a clock change removes it"), "{never:?}");

    let both = parse("@at 2026-11-01T01:30:00", "America/New_York", DstGap::Skip, DstFold::Both).unwrap();
    let expected = [at("2026-11-01T05:30:00Z"), at("2026-11-01T06:30:00Z")];
    assert_eq!(following(&both, at("2026-01-01T00:00:00Z"), 3), expected);
}

#[test]
fn two_different_zones_for_one_time_are_refused() {
    let spec = parse("@at 2026-12-24T18:00:00 Europe/Berlin", "Asia/Tokyo", DstGap::Skip, DstFold::First);
    assert!(spec.unwrap_err()[0].message.contains("but the timezone is Asia/Tokyo"));
}

#[test]
fn either_rule_keeps_an_impossible_date_that_a_weekday_saves() {
    assert_eq!(days("0 0 30 2 1", "2026-02-07T00:00:00Z", 2), ["2026-02-09", "2026-02-16"]);
    assert!(refused("0 0 30 2 */1")[0].contains("names no date"));
}

#[test]
fn the_leap_day_after_a_common_century_is_found() {
    assert_eq!(days("0 0 29 2 *", "2096-03-01T00:00:00Z", 1), ["2104-02-29"]);
}

#[test]
fn a_preview_says_what_a_clock_change_did() {
    let daily = parse("30 2 * * *", "America/New_York", DstGap::RunAfter, DstFold::First).unwrap();
    let moved = at("2026-03-08T07:00:00Z");
    assert_eq!(
        daily.oddity(moved).unwrap().to_string(),
        "the times from 02:00 to 03:00 do not exist on 2026-03-08: moved to the first instant after them"
    );
    assert_eq!(daily.local_time(moved).to_rfc3339(), "2026-03-08T03:00:00-04:00");
    assert_eq!(daily.oddity(at("2026-03-09T06:30:00Z")), None);

    let both = parse("30 1 * * *", "America/New_York", DstGap::RunAfter, DstFold::Both).unwrap();
    assert_eq!(both.oddity(at("2026-11-01T05:30:00Z")), Some(Oddity::FirstPass));
    assert_eq!(both.oddity(at("2026-11-01T06:30:00Z")), Some(Oddity::SecondPass));
    assert_eq!(both.oddity(at("2026-11-02T06:30:00Z")), None);

    // 03:00 is named itself, and 02:00 is moved onto it only where it is named too.
    assert_eq!(schedule("0 3 * * *", "America/New_York").oddity(moved), None);
    assert!(schedule("0 2,3 * * *", "America/New_York").oddity(moved).is_some());
    // Elapsed time goes on through a gap.
    assert_eq!(schedule("* * * * *", "America/New_York").oddity(moved), None);
}

#[test]
fn the_sentence_names_the_days_that_come() {
    for (when, sentence) in [
        ("0 9 * * 1-5", "At 09:00 on Monday to Friday, Europe/Berlin time"),
        ("* * * * *", "Every minute, Europe/Berlin time"),
        ("* * * * * *", "Every second, Europe/Berlin time"),
        ("*/15 * * * *", "Every 15 minutes, Europe/Berlin time"),
        ("0 * * * *", "Minute 0 of every hour, Europe/Berlin time"),
        ("*/10 * * * * *", "Every 10 seconds, Europe/Berlin time"),
        ("15,45 0 9 * * MON-FRI", "At 09:00:15 and 09:00:45 on Monday to Friday, Europe/Berlin time"),
        ("@daily", "At 00:00 every day, Europe/Berlin time"),
        ("@weekly", "At 00:00 on Sunday, Europe/Berlin time"),
        ("@yearly", "At 00:00 on day 1 of the month in January, Europe/Berlin time"),
        ("0 0 13 * 5", "At 00:00 on day 13 of the month or on Friday, Europe/Berlin time"),
        (
            "0 0 */2 * 1",
            "At 00:00 on day 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31 of the month if it is \
             Monday, Europe/Berlin time",
        ),
        ("0 0 1,15 * *", "At 00:00 on day 1 and 15 of the month, Europe/Berlin time"),
        (
            "0 0 L,15W * *",
            "At 00:00 on the last day of the month and the weekday nearest to day 15 of the month, Europe/Berlin time",
        ),
        ("0 0 * * 6,0", "At 00:00 on Saturday and Sunday, Europe/Berlin time"),
        (
            "0 0 * * 5L,1#1",
            "At 00:00 on the first Monday of the month and the last Friday of the month, Europe/Berlin time",
        ),
        (
            "0-30/10 8-18 * jan-mar,12 *",
            "Minute 0, 10, 20 and 30 of hour 08 to 18 in January to March and December, Europe/Berlin time",
        ),
        (
            "0 0 0 1 1 ? 2027-2031/2",
            "At 00:00 on day 1 of the month in January of 2027, 2029 and 2031, Europe/Berlin time",
        ),
        ("@every 1h30m", "Every 1 hour and 30 minutes, counted from 2026-01-01T00:00:00Z"),
        ("@at 2026-12-24T18:00:00", "Once, on 24 December 2026 at 18:00:00, Europe/Berlin time"),
    ] {
        assert_eq!(schedule(when, "Europe/Berlin").describe(), sentence, "{when}");
    }
}
