//! What its owner does to a job: pauses, changes, bounds and calendars decide what is expected of it.

use super::*;
use model::calendar::CalendarVersion;
use model::policy::CalendarRule;

fn in_zone(schedule: &str, timezone: &str) -> Definition {
    Definition { timezone: timezone.to_owned(), ..definition(schedule, 10) }
}

/// Sunday 2026-11-29 in version 1 of `holidays`, which version 2 no longer has.
fn holidays() -> DateSets {
    let mut dates = DateSets::default();
    let sunday = at(0).date_naive();
    for (version, days) in [(1, vec![sunday]), (2, Vec::new())] {
        dates.add((TenantId::DEFAULT, holiday(version)), days);
    }
    dates
}

fn holiday(version: i64) -> CalendarVersion {
    CalendarVersion { name: "holidays".to_owned(), version }
}

fn closed(schedule: &str, version: i64, rule: CalendarRule) -> Definition {
    let calendars = Calendars { exclude: vec![holiday(version)], only: Vec::new(), rule };
    Definition { calendars, ..definition(schedule, 10) }
}

/// What is expected of a job that was created at noon, by what its owner did since; nothing else is.
#[test]
fn only_what_its_owner_waits_for_is_expected() {
    let (day, hour) = (86_400, 3_600);
    let minutely = |within| definition("* * * * *", within);
    let bounded = |starts: Option<i64>, ends: Option<i64>| Definition {
        starts_at: starts.map(at),
        ends_at: ends.map(at),
        ..definition("* * * * *", 10)
    };
    let cases: Vec<(&str, Vec<Revision>, i64, Vec<i64>)> = vec![
        (
            "what is due in a pause is not watched",
            vec![revision(0, minutely(10)), paused(90, minutely(10)), revision(200, minutely(10))],
            400,
            vec![60, 240, 300, 360],
        ),
        (
            "a pause at the deadline withdraws what was due before it",
            vec![revision(0, minutely(10)), paused(65, minutely(10)), revision(300, minutely(10))],
            400,
            vec![360],
        ),
        (
            "a pause after the deadline withdraws nothing",
            vec![revision(0, minutely(10)), paused(71, minutely(10))],
            400,
            vec![60],
        ),
        (
            "a pause that is over by the deadline withdraws nothing",
            vec![revision(0, minutely(100)), paused(65, minutely(100)), revision(100, minutely(100))],
            400,
            vec![60, 120, 180, 240],
        ),
        (
            "of several occurrences those are withdrawn whose deadline lies in the pause",
            vec![revision(0, minutely(100)), paused(200, minutely(100)), revision(260, minutely(100))],
            380,
            vec![60, 180],
        ),
        (
            "a job that is changed while it is paused stays unwatched",
            vec![
                revision(0, minutely(10)),
                paused(71, minutely(10)),
                paused(100, definition("* * * * * *", 1)),
            ],
            400,
            vec![60],
        ),
        (
            "a deletion withdraws, also when a pause came between",
            vec![revision(0, minutely(100)), paused(65, minutely(100)), deleted(90)],
            400,
            vec![],
        ),
        (
            "watching that is switched off and on again by the deadline withdraws nothing",
            vec![revision(0, minutely(10)), unwatched(62), revision(65, minutely(10))],
            130,
            vec![60],
        ),
        ("nothing is due after ends_at", vec![revision(0, bounded(None, Some(120)))], 400, vec![60, 120]),
        ("nothing is due before starts_at", vec![revision(0, bounded(Some(120), None))], 200, vec![120, 180]),
        (
            "an end that is moved to before an occurrence takes it away",
            vec![revision(0, minutely(10)), revision(90, bounded(None, Some(100)))],
            400,
            vec![60],
        ),
        (
            "a timezone that is moved moves what is due",
            vec![
                revision(0, in_zone("5 14 * * *", "Europe/Berlin")),
                revision(hour, in_zone("5 14 * * *", "UTC")),
            ],
            3 * hour,
            vec![2 * hour + 300],
        ),
        (
            "a day that a calendar closes is left out",
            vec![revision(0, closed("0 13 * * *", 1, CalendarRule::Skip))],
            2 * day,
            vec![hour + day],
        ),
        (
            "what a calendar moves is judged where it was moved to",
            vec![revision(0, closed("0 13 * * SUN", 1, CalendarRule::NextDay))],
            2 * day,
            vec![hour + day],
        ),
        (
            "a calendar that is changed in time counts",
            vec![
                revision(0, closed("0 13 * * *", 1, CalendarRule::Skip)),
                revision(600, closed("0 13 * * *", 2, CalendarRule::Skip)),
            ],
            day,
            vec![hour],
        ),
        (
            "a name that is changed changes nothing",
            vec![revision(0, minutely(30)), revision(70, minutely(30)), revision(80, minutely(30))],
            160,
            vec![60, 120],
        ),
        (
            "a job that is created at the second is not watched there",
            vec![revision(60, minutely(10))],
            140,
            vec![120],
        ),
    ];
    for (what, revisions, now, expected) in cases {
        assert_eq!(judged_by(revisions, now), expected, "{what}");
    }
}

/// What is expected by `now` of a job's cursor and of the rests that it leaves.
fn judged_by(revisions: Vec<Revision>, now: i64) -> Vec<i64> {
    let dates = holidays();
    let walked = walk(&cursor(0, revisions.clone()), &dates, at(now), DateTime::UNIX_EPOCH, 1_000);
    assert!(walked.broken.is_empty(), "{:?}", walked.broken);
    let mut expected = seconds(&walked);
    for rest in walked.rests.iter().filter(|rest| rest.judge_at <= at(now)) {
        let rest = Cursor {
            judged_through: rest.judged_through,
            through: Some(rest.through),
            ..cursor(0, revisions.clone())
        };
        expected.extend(seconds(&walk(&rest, &dates, at(now), DateTime::UNIX_EPOCH, 1_000)));
    }
    expected.sort_unstable();
    expected
}

#[test]
fn whether_a_pause_withdraws_is_open_until_the_deadline() {
    let revisions = vec![revision(0, definition("* * * * *", 100)), paused(65, definition("* * * * *", 100))];
    let walked = go(&cursor(0, revisions.clone()), 70);
    assert_eq!((seconds(&walked), next(&walked)), (vec![], None));
    let rest = walked.rests[0];
    assert_eq!((rest.through, rest.judged_through, rest.judge_at), (at(65), at(0), at(163)));

    let still = Cursor { through: Some(at(65)), ..cursor(0, revisions.clone()) };
    let walked = go(&still, 163);
    assert_eq!((seconds(&walked), walked.closed), (vec![], true));

    let resumed = [revisions, vec![revision(150, definition("* * * * *", 100))]].concat();
    let walked = go(&Cursor { revisions: resumed, ..still }, 163);
    assert_eq!((seconds(&walked), walked.closed), (vec![60], true));
}

/// However many occurrences a pause withdraws, they are passed over at once.
#[test]
fn a_long_pause_of_a_busy_job_is_passed_over_at_once() {
    let year = 365 * 86_400;
    let busy = || definition("* * * * * *", u64::try_from(year).expect("positive"));
    let revisions = vec![revision(0, busy()), paused(year - 10, busy()), revision(2 * year - 20, busy())];
    let began = std::time::Instant::now();
    let walked = judged_by(revisions, 2 * year + 3);
    assert_eq!(walked, (year - 20..=year - 10).collect::<Vec<_>>());
    assert!(began.elapsed() < Time::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn a_calendar_that_does_not_exist_is_broken_as_an_unreadable_definition_is() {
    let revisions = vec![
        revision(0, definition("* * * * *", 10)),
        revision(90, closed("* * * * *", 3, CalendarRule::Skip)),
        revision(200, definition("* * * * *", 10)),
    ];
    let walked = walk(&cursor(0, revisions), &holidays(), at(320), DateTime::UNIX_EPOCH, 1_000);
    assert_eq!(seconds(&walked), [60, 240, 300]);
    assert_eq!(walked.broken, [(at(90), "\"holidays\" has no version 3".to_owned())]);
}

/// A cursor that never moved stands right before the first instant of a schedule that may be replaced meanwhile.
#[test]
fn a_schedule_that_brings_occurrences_forward_is_watched_from_its_change_on() {
    let revisions = vec![revision(0, definition("0 9 * * *", 10)), revision(30, definition("0 9 * * *", 10))];
    let tomorrow = 21 * 3_600;
    let unmoved = Cursor { judged_through: at(tomorrow) - STEP, ..cursor(0, vec![revisions[1].clone()]) };
    let walked = go(&unmoved, 40);
    assert_eq!(next(&walked), Some((tomorrow, tomorrow + 13)));
    let moved = walked.advance.expect("moved").judged_through;
    let sooner = [revisions, vec![revision(50, definition("* * * * *", 10))]].concat();
    let walked = go(&Cursor { judged_through: moved, ..cursor(0, sooner) }, 140);
    assert_eq!(seconds(&walked), [60, 120]);
}
