use super::*;

fn calendar(dates: &[&str]) -> v1::Calendar {
    v1::Calendar {
        name: "holidays".to_owned(),
        dates: dates.iter().map(|date| (*date).to_owned()).collect(),
        ..v1::Calendar::default()
    }
}

#[test]
fn dates_come_in_order_and_once() {
    let written = read(&calendar(&["2026-12-26", "2026-12-25", "2026-12-26"])).expect("sound");
    let dates: Vec<_> = written.dates.iter().map(ToString::to_string).collect();
    assert_eq!(dates, ["2026-12-25", "2026-12-26"]);
}

#[test]
fn every_wrong_date_is_named_with_its_place() {
    let wrong = [
        "2026-02-30",
        "2026-2-3",
        " 2026-02-03",
        "26-02-03",
        "2026/02/03",
        "1969-12-31",
        "2200-01-01",
        "",
        "2026-02-03T00:00:00Z",
        "٢٠٢٦-٠١-٠١",
        "+026-01-01",
        "2026-12-25\0",
    ];
    let mut dates = vec!["2026-12-25"];
    dates.extend(wrong);
    let errors = read(&calendar(&dates)).expect_err("wrong");
    let fields: Vec<_> = errors.into_iter().map(|error| error.field).collect();
    let expected: Vec<_> = (1..=wrong.len()).map(|index| format!("dates[{index}]")).collect();
    assert_eq!(fields, expected);
}

#[test]
fn the_largest_calendar_is_read_and_a_larger_one_is_not() {
    let first = NaiveDate::from_ymd_opt(2000, 1, 1).expect("a day");
    let days = |count: usize| first.iter_days().take(count).map(|day| day.to_string()).collect();
    let of = |count: usize| v1::Calendar { dates: days(count), ..calendar(&[]) };
    assert!(read(&of(limits::CALENDAR_DATES)).is_ok());
    let errors = read(&of(limits::CALENDAR_DATES + 1)).expect_err("too many");
    assert_eq!(errors[0].field, "dates");
}

#[test]
fn dates_that_differ_are_told_in_order_and_not_without_end() {
    let dates = |dates: &[&str]| read(&calendar(dates)).expect("sound").dates;
    let (before, after) =
        (dates(&["2026-12-24", "2026-12-25"]), dates(&["2026-12-25", "2026-12-26", "2026-01-01"]));
    let told: Vec<_> = differences(&before, &after).into_iter().map(|one| (one.before, one.after)).collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(told, [(None, some("2026-01-01")), (some("2026-12-24"), None), (None, some("2026-12-26"))]);
    assert_eq!(differences(&after, &after), []);
    let first = NaiveDate::from_ymd_opt(2000, 1, 1).expect("a day");
    let many: Vec<_> = first.iter_days().take(DATES_SHOWN + 7).collect();
    let told = differences(&[], &many);
    assert_eq!(told.len(), DATES_SHOWN + 1);
    assert_eq!(told[DATES_SHOWN].after.as_deref(), Some("… and 7 more that differ"));
}

#[test]
fn a_calendar_keeps_its_name() {
    assert!(given(Some(calendar(&[])), Some("holidays".to_owned())).is_ok());
    assert!(matches!(given(Some(calendar(&[])), Some("other".to_owned())), Err(Failure::Invalid(_))));
    assert!(matches!(given(Some(calendar(&[])), Some("No Name".to_owned())), Err(Failure::NotFound { .. })));
}
