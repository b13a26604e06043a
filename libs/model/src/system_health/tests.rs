use super::*;
use crate::alert::Cause;
use chrono::{DateTime, TimeDelta, Utc};

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_942_800 + second, 0).expect("in range")
}

const LIMITS: Limits = Limits {
    ticker_silence: Duration::from_secs(15),
    dispatcher_silence: Duration::from_secs(15),
    clock_offset: Duration::from_secs(1),
    lateness: Duration::from_secs(2),
    lateness_runs_min: 50,
    transaction: Duration::from_secs(300),
};

fn well() -> Observation {
    Observation {
        at: at(100),
        watched_since: at(0),
        ticker_cycle: Some(at(99)),
        dispatcher_seen: Some(at(99)),
        unserved: Vec::new(),
        clock_offset: Some(TimeDelta::milliseconds(-3)),
        clock_jumped: false,
        outlook: Some(Outlook {
            lateness: Lateness { runs: 1_000, p99: Duration::from_millis(300) },
            token: (1, 1_000),
            expiring: Vec::new(),
            day_missing: None,
            failing: Vec::new(),
            broken: Vec::new(),
            tzdata: Tzdata {
                ours: "2026c".to_owned(),
                plans: Some("2026c".to_owned()),
                tickers: Some(vec![("t-1".to_owned(), "2026c".to_owned())]),
            },
            transaction: Some(OldTransaction { who: "psql".to_owned(), since: at(-100) }),
        }),
    }
}

fn unserved_queue() -> Unserved {
    Unserved { tenant: "default".to_owned(), queue: "reports".to_owned(), since: at(60), runs: 7 }
}

/// A change for the worse, and what is found.
type Case = (&'static str, fn(&mut Observation), &'static [(Trouble, &'static str)]);

const CASES: &[Case] = &[
    ("all is well", |_| {}, &[]),
    ("a ticker just within", |o| o.ticker_cycle = Some(at(85)), &[]),
    ("a silent ticker", |o| o.ticker_cycle = Some(at(84)), &[(Trouble::NoTicker, "")]),
    ("no ticker ever", |o| o.ticker_cycle = None, &[(Trouble::NoTicker, "")]),
    (
        "no ticker yet",
        |o| {
            o.ticker_cycle = None;
            o.watched_since = at(85);
        },
        &[],
    ),
    ("silent dispatchers", |o| o.dispatcher_seen = Some(at(84)), &[(Trouble::NoDispatcher, "")]),
    ("no worker", |o| o.unserved.push(unserved_queue()), &[(Trouble::NoWorker, "default/reports")]),
    (
        "neither dispatcher nor worker",
        |o| {
            o.dispatcher_seen = Some(at(1));
            o.unserved.push(unserved_queue());
        },
        &[(Trouble::NoDispatcher, "")],
    ),
    ("a clock ahead", |o| o.clock_offset = Some(TimeDelta::seconds(2)), &[(Trouble::ClockOffset, "")]),
    ("a clock behind", |o| o.clock_offset = Some(TimeDelta::seconds(-2)), &[(Trouble::ClockOffset, "")]),
    (
        "a jump, whatever else seems wrong",
        |o| {
            o.clock_jumped = true;
            o.ticker_cycle = Some(at(-9_000));
        },
        &[(Trouble::ClockJumped, "")],
    ),
    ("late", |o| slowly(o).lateness.p99 = Duration::from_secs(3), &[(Trouble::Late, "")]),
    (
        "late, but too few to say so",
        |o| slowly(o).lateness = Lateness { runs: 49, p99: Duration::from_secs(3) },
        &[],
    ),
    ("high epochs", |o| slowly(o).token = (500_000, 1), &[(Trouble::TokensRunOut, "")]),
    ("high numbers", |o| slowly(o).token = (1, 17 << 40), &[(Trouble::TokensRunOut, "")]),
    (
        "a token that expires",
        |o| {
            let (id, name) = ("t-1".to_owned(), "agents".to_owned());
            slowly(o).expiring.push(ExpiringToken { id, tenant: None, name, expires_at: at(86_400) });
        },
        &[(Trouble::TokenExpires, "t-1")],
    ),
    (
        "no partition",
        |o| slowly(o).day_missing = Some(at(0).date_naive()),
        &[(Trouble::PartitionMissing, "")],
    ),
    (
        "no partition, and no ticker yet that would have made it",
        |o| {
            slowly(o).day_missing = Some(at(0).date_naive());
            o.ticker_cycle = None;
            o.watched_since = at(95);
        },
        &[],
    ),
    (
        "a dead channel",
        |o| {
            let (id, name, error) = ("c-1".to_owned(), "oncall".to_owned(), "answered 500".to_owned());
            slowly(o).failing.push(FailingChannel {
                id,
                tenant: None,
                name,
                since: at(0),
                deliveries: 2,
                error,
            });
        },
        &[(Trouble::ChannelFails, "c-1")],
    ),
    (
        "a broken job",
        |o| {
            let (id, name, why) = ("j-1".to_owned(), "invoices".to_owned(), "no calendar".to_owned());
            slowly(o).broken.push(BrokenJob { id, tenant: None, name, why, since: at(0) });
        },
        &[(Trouble::JobBroken, "j-1")],
    ),
    (
        "another timezone database",
        |o| slowly(o).tzdata.plans = Some("2026b".to_owned()),
        &[(Trouble::TzdataDiffers, "")],
    ),
    (
        "a ticker with another timezone database stands by",
        |o| slowly(o).tzdata.tickers = Some(vec![("t-2".to_owned(), "2026b".to_owned())]),
        &[(Trouble::TzdataDiffers, "")],
    ),
    ("no ticker can be asked for", |o| slowly(o).tzdata.tickers = None, &[]),
    (
        "an old transaction",
        |o| slowly(o).transaction = Some(OldTransaction { who: "psql".to_owned(), since: at(-300) }),
        &[(Trouble::OldTransaction, "")],
    ),
];

fn slowly(observation: &mut Observation) -> &mut Outlook {
    observation.outlook.as_mut().expect("looked")
}

#[test]
fn each_thing_that_goes_wrong_is_found_and_nothing_else() {
    for (case, worsen, expected) in CASES {
        let mut observation = well();
        worsen(&mut observation);
        let (looked, found) = conditions(&observation, &LIMITS);
        let subjects: Vec<_> = found.iter().map(Condition::subject).collect();
        let expected: Vec<_> = expected.iter().map(|(kind, about)| (*kind, (*about).to_owned())).collect();
        assert_eq!(subjects, expected, "{case}");
        assert!(found.iter().all(|condition| looked.contains(&condition.kind)), "{case}");
    }
}

#[test]
fn every_watchdog_sees_an_etcd_that_is_silent_or_was_rebuilt() {
    let refused = Refused { role: "ticker".to_owned(), stored: 900, etcd: 7, raised_at: at(0) };
    let cases = [
        (Standing { etcd_silent: None, refused: Some(Vec::new()) }, vec![]),
        (Standing { etcd_silent: Some(at(3)), refused: None }, vec![(Trouble::EtcdUnreachable, "")]),
        (
            Standing { etcd_silent: None, refused: Some(vec![refused]) },
            vec![(Trouble::FenceRefused, "ticker")],
        ),
    ];
    for (standing, expected) in cases {
        let (looked, found) = standing_conditions(&standing, at(100));
        let subjects: Vec<_> = found.iter().map(|found| (found.kind, found.about.as_str())).collect();
        assert_eq!(subjects, expected);
        assert_eq!(looked.contains(&Trouble::FenceRefused), standing.refused.is_some());
    }
}

fn condition(kind: Trouble, about: &str) -> Condition {
    Condition { kind, about: about.to_owned(), tenant: None, since: at(0), count: 0, detail: String::new() }
}

/// Judges and settles at `second`; what was told, as `+` or `-` and the kind.
fn step(previous: &mut Previous, start: Instant, second: u64, wrong: &[Condition]) -> Vec<String> {
    let now = start + Duration::from_secs(second);
    let told = judge(&[Trouble::NoTicker, Trouble::Late, Trouble::NoWorker], wrong, previous, now);
    settle(previous, &told);
    let sign = |transition: &Transition| match transition {
        Transition::Opened(condition) => format!("+{}{}", condition.kind, condition.about),
        Transition::Resolved((kind, about)) => format!("-{kind}{about}"),
    };
    told.iter().map(sign).collect()
}

#[test]
fn a_trouble_is_told_once_after_its_hold_and_its_end_once_after_it_settled() {
    let (mut previous, start) = (Previous::default(), Instant::now());
    let none: &[Condition] = &[];
    let wrong = [condition(Trouble::NoTicker, "")];
    let expected: [(&[Condition], &[&str]); 10] = [
        (&wrong, &[]),
        (&wrong, &[]),
        (&wrong, &["+NO_TICKER"]),
        (&wrong, &[]),
        (none, &[]),
        (&wrong, &[]), // a flicker ends nothing
        (none, &[]),
        (none, &[]),
        (none, &["-NO_TICKER"]),
        (none, &[]),
    ];
    for (second, (wrong, told)) in (0..).zip(expected) {
        assert_eq!(step(&mut previous, start, second, wrong), told, "second {second}");
    }
    assert_eq!(previous, Previous::default(), "nothing is kept of what is over");
}

#[test]
fn what_ends_within_its_hold_is_never_told() {
    let (mut previous, start) = (Previous::default(), Instant::now());
    let wrong = [condition(Trouble::Late, "")];
    for second in 0..300 {
        let wrong: &[Condition] = if second % 50 == 49 { &[] } else { &wrong };
        assert_eq!(step(&mut previous, start, second, wrong), [""; 0], "second {second}");
    }
}

#[test]
fn each_subject_is_told_by_itself() {
    let (mut previous, start) = (Previous::default(), Instant::now());
    let (one, two) = (condition(Trouble::NoWorker, "a/x"), condition(Trouble::NoWorker, "a/y"));
    step(&mut previous, start, 0, std::slice::from_ref(&one));
    assert_eq!(step(&mut previous, start, 2, &[one.clone(), two.clone()]), ["+NO_WORKERa/x"]);
    assert_eq!(step(&mut previous, start, 4, &[one, two.clone()]), ["+NO_WORKERa/y"]);
    step(&mut previous, start, 5, std::slice::from_ref(&two));
    assert_eq!(step(&mut previous, start, 7, &[two]), ["-NO_WORKERa/x"]);
}

#[test]
fn what_was_not_looked_at_stays_as_it_was() {
    let (mut previous, start) = (Previous::open([(Trouble::Late, String::new())]), Instant::now());
    for second in 0..200 {
        let now = start + Duration::from_secs(second);
        assert_eq!(judge(&[Trouble::NoTicker], &[], &mut previous, now), []);
    }
    assert!(previous.is_open(&(Trouble::Late, String::new())));
}

#[test]
fn a_successor_neither_tells_again_nor_forgets_to_resolve() {
    let (mut previous, start) = (Previous::open([(Trouble::NoTicker, String::new())]), Instant::now());
    let wrong = [condition(Trouble::NoTicker, "")];
    assert_eq!(step(&mut previous, start, 0, &wrong), [""; 0]);
    assert_eq!(step(&mut previous, start, 9, &wrong), [""; 0]);
    step(&mut previous, start, 10, &[]);
    assert_eq!(step(&mut previous, start, 12, &[]), ["-NO_TICKER"]);
}

#[test]
fn what_somebody_resolved_is_told_anew_when_it_goes_on_for_its_hold() {
    let (mut previous, start) = (Previous::default(), Instant::now());
    let wrong = [condition(Trouble::NoTicker, ""), condition(Trouble::NoWorker, "a/x")];
    step(&mut previous, start, 0, &wrong);
    assert_eq!(step(&mut previous, start, 2, &wrong), ["+NO_TICKER", "+NO_WORKERa/x"]);
    previous.adopt([(Trouble::NoTicker, String::new())]);
    assert_eq!(step(&mut previous, start, 10, &wrong), [""; 0]);
    assert_eq!(step(&mut previous, start, 12, &wrong), ["+NO_WORKERa/x"]);
}

#[test]
fn what_is_seen_and_not_told_yet_is_no_matter_of_what_is_open() {
    let (mut previous, start) = (Previous::default(), Instant::now());
    let wrong = [condition(Trouble::NoTicker, "")];
    step(&mut previous, start, 0, &wrong);
    previous.adopt([]);
    assert_eq!(step(&mut previous, start, 2, &wrong), ["+NO_TICKER"]);
}

#[test]
fn what_could_not_be_written_is_told_at_the_next_look() {
    let (mut previous, start) = (Previous::default(), Instant::now());
    let wrong = [condition(Trouble::JobBroken, "j")];
    for second in 0..3 {
        let now = start + Duration::from_secs(second);
        assert_eq!(judge(&[Trouble::JobBroken], &wrong, &mut previous, now).len(), 1, "second {second}");
    }
}

#[test]
fn the_cause_is_the_first_that_is_known_to_be_wrong() {
    let open = |subjects: &[(Trouble, &str)]| {
        subjects.iter().map(|(kind, about)| (*kind, (*about).to_owned())).collect::<Open>()
    };
    let all = [(Trouble::NoTicker, ""), (Trouble::NoDispatcher, ""), (Trouble::NoWorker, "t/q")];
    use crate::run::Reason;
    type Explained<'a> = (Cause, &'a [(Trouble, &'a str)], Option<Trouble>);
    let cases: &[Explained<'_>] = &[
        (Cause::NeverPlanned, &all, Some(Trouble::NoTicker)),
        (Cause::NeverPlanned, &all[1..], None),
        (Cause::Waiting, &all, Some(Trouble::NoDispatcher)),
        (Cause::Waiting, &all[..1], None),
        (Cause::Waiting, &all[2..], Some(Trouble::NoWorker)),
        (Cause::Retrying, &all[2..], Some(Trouble::NoWorker)),
        (Cause::Waiting, &[(Trouble::NoWorker, "t/other")], None),
        (Cause::SucceededLate, &all, Some(Trouble::NoTicker)),
        (Cause::SucceededLate, &all[1..], Some(Trouble::NoDispatcher)),
        (Cause::SucceededLate, &[], None),
        (Cause::Failed, &all, None),
        (Cause::Running, &all, None),
    ];
    for (cause, wrong, expected) in cases {
        assert_eq!(explain(*cause, None, "t", "q", &open(wrong)), *expected, "{cause} with {wrong:?}");
    }
    for (reason, expected) in [
        (Reason::Missed, Some(Trouble::NoTicker)),
        (Reason::Superseded, Some(Trouble::NoTicker)),
        (Reason::Overlap, Some(Trouble::NoTicker)),
        (Reason::Requested, None),
    ] {
        assert_eq!(explain(Cause::Skipped, Some(reason), "t", "q", &open(&all)), expected, "{reason}");
    }
}
