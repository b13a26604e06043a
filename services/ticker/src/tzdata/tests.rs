use super::*;
use model::policy::{DstFold, DstGap};
use schedule::Spec;

fn schedule(expression: &str, timezone: &str) -> Schedule {
    let spec = Spec {
        expression,
        timezone,
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        seed: "job",
        anchor: DateTime::UNIX_EPOCH,
    };
    Schedule::parse(&spec).expect(expression)
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().expect(text)
}

#[test]
fn versions_are_compared_by_year_and_letter() {
    for (older, newer) in [("2025b", "2025c"), ("2025z", "2026a"), ("2025z", "2025za"), ("2025b", "2026f")] {
        assert_eq!(compare(older, newer), Ordering::Less);
        assert_eq!(compare(newer, older), Ordering::Greater);
    }
    assert_eq!(compare("2026a", "2026a"), Ordering::Equal);
}

#[test]
fn a_local_day_begins_at_its_own_midnight() {
    for (at, timezone, expected) in [
        ("2026-07-01T12:00:00Z", "Europe/Berlin", "2026-06-30T22:00:00Z"),
        ("2026-07-01T12:34:56.789Z", "UTC", "2026-07-01T00:00:00Z"),
        ("2026-03-29T12:00:00Z", "Europe/Berlin", "2026-03-28T23:00:00Z"),
        ("2026-10-25T23:30:00Z", "Europe/Berlin", "2026-10-25T23:00:00Z"),
    ] {
        assert_eq!(
            day_of(&schedule("0 0 * * *", timezone), instant(at)),
            instant(expected),
            "{at} {timezone}"
        );
    }
}

#[test]
fn what_ran_today_does_not_run_again_today() {
    // Two runs a day, at 09:00 and at 15:00.
    let twice = schedule("0 9,15 * * *", "America/Vancouver");
    let tomorrow = twice.next(instant("2026-12-02T07:59:59Z")).expect("one");
    let at = instant("2026-12-01T15:30:00Z");
    let [first, second] = [twice.next(at), twice.next(at).and_then(|first| twice.next(first))];
    let [first, second] = [first.expect("one"), second.expect("another")];
    assert_eq!((date(&twice, first), date(&twice, second)), (date(&twice, at), date(&twice, at)));
    let past = |ran| Past { next: Some(tomorrow), ran, known_since: DateTime::UNIX_EPOCH };
    for (ran, expected) in [(0, first), (1, second), (2, tomorrow), (3, tomorrow)] {
        assert_eq!(go_on(&twice, past(ran), at), Some(expected), "{ran} ran");
    }
    // Later in the day the first one is over by itself.
    let later = first + TimeDelta::seconds(1);
    for (ran, expected) in [(0, second), (1, second), (2, tomorrow)] {
        assert_eq!(go_on(&twice, past(ran), later), Some(expected), "{ran} ran");
    }
    let exhausted = Past { next: None, ..past(0) };
    assert_eq!(go_on(&twice, exhausted, at), Some(first), "an exhausted schedule may have another instant");
}

#[test]
fn what_was_promised_for_today_is_missed_when_by_the_new_reading_it_has_passed() {
    let daily = schedule("0 9 * * *", "Europe/Berlin");
    let at = instant("2026-12-01T08:30:00Z"); // half past nine
    let past =
        Past { next: Some(instant("2026-12-01T09:00:00Z")), ran: 0, known_since: DateTime::UNIX_EPOCH };
    let (today, tomorrow) = (instant("2026-12-01T08:00:00Z"), instant("2026-12-02T08:00:00Z"));
    assert_eq!(go_on(&daily, past, at), Some(today));
    for (what, past) in [
        ("it ran", Past { ran: 1, ..past }),
        ("the job is younger", Past { known_since: instant("2026-12-01T08:10:00Z"), ..past }),
        ("nothing was promised", Past { next: Some(tomorrow), ..past }),
    ] {
        assert_eq!(go_on(&daily, past, at), Some(tomorrow), "{what}");
    }
}

#[test]
fn what_an_outage_left_unplanned_is_not_passed_over() {
    let daily = schedule("0 9 * * *", "Europe/Berlin");
    let past = instant("2026-06-29T07:00:00Z");
    let unplanned = Past { next: Some(past), ran: 1, known_since: DateTime::UNIX_EPOCH };
    assert_eq!(go_on(&daily, unplanned, instant("2026-07-01T12:00:00Z")), Some(past));
}
