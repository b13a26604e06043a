//! Whatever happens to a job, each of its occurrences ends in exactly one of succeeded in time, alerted and withdrawn.
//!
//! A job's life is drawn at random, with a watchdog that sometimes looks, sometimes dies before it has written what it
//! found, and sometimes is away. What the registry and the watchdog write about cursors is mirrored here from
//! `libs/store/sql/{job_change,watch_cursor,watch_rest}`; `tests/any_life.rs` holds the same against the database.

use super::*;
use model::alert::{Cause, Judgement, Seen, judge};
use model::run::{Phase, Reason};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;

/// What happens to a job, after a time.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// Its definition becomes this one.
    Change(usize),
    Pause,
    Resume,
    Delete,
    /// The watchdog judges what is due, so many at once.
    Check(usize),
    /// The watchdog dies between finding out and writing.
    Crash,
}

/// Where an occurrence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    InTime,
    Alerted,
    Withdrawn,
}

const DEFINITIONS: [(&str, Option<u64>); 7] = [
    ("*/10 * * * * *", Some(5)),
    ("*/10 * * * * *", Some(45)),
    ("*/7 * * * * *", Some(120)),
    ("@every 13s", Some(1)),
    ("* * * * *", Some(60)),
    ("0 * * * *", Some(20)),
    ("*/5 * * * * *", None),
];

fn numbered(number: usize) -> Definition {
    let (schedule, within) = DEFINITIONS[number];
    let mut definition = definition(schedule, within.unwrap_or(1));
    definition.alert.disabled = within.is_none();
    definition
}

/// What the ledger has of an occurrence: anything, but always the same.
fn ledger(occurrence: DateTime<Utc>) -> Seen {
    let second = occurrence.timestamp();
    let ended = |phase, reason, after| Seen {
        phase: Some(phase),
        reason,
        finished_at: Some(occurrence + Duration::seconds(after)),
    };
    match (second / 5).rem_euclid(6) {
        0 => Seen::NOTHING,
        1 => ended(Phase::Failed, Some(Reason::WorkFailed), 1),
        2 => ended(Phase::Cancelled, Some(Reason::Paused), 1),
        3 => ended(Phase::Succeeded, None, 50),
        _ => ended(Phase::Succeeded, None, 1),
    }
}

/// A job with the rows that belong to it.
struct World {
    now: DateTime<Utc>,
    revisions: Vec<Revision>,
    judged_through: Option<DateTime<Utc>>,
    next_at: Option<DateTime<Utc>>,
    judge_at: Option<DateTime<Utc>>,
    rests: BTreeMap<DateTime<Utc>, Rest>,
    ends: BTreeMap<DateTime<Utc>, End>,
}

impl World {
    fn create(number: usize) -> Self {
        let definition = numbered(number);
        let next_at = schedule_of(&definition).next(at(0));
        let within = definition.success_within().map(|within| Duration::from_std(within).expect("in range"));
        let judge_at = next_at.and_then(|next| Some(next + within? + SETTLE));
        Self {
            now: at(0),
            revisions: vec![revision(0, definition)],
            judged_through: None,
            next_at,
            judge_at,
            rests: BTreeMap::new(),
            ends: BTreeMap::new(),
        }
    }

    /// As `model::alert::judge` and the check decide.
    fn end(&self, expected: &Expected) -> End {
        match judge(ledger(expected.occurrence), expected.deadline) {
            Judgement::InTime => End::InTime,
            Judgement::Missed(_) if is_awaited(&self.cursor(None)) => End::Alerted,
            Judgement::Missed(_) | Judgement::Withdrawn => End::Withdrawn,
        }
    }

    fn happens(&mut self, event: Event) {
        let last = self.revisions.last().expect("one").clone();
        if last.deleted && !matches!(event, Event::Check(_) | Event::Crash) {
            return;
        }
        let next = Revision { in_force_from: self.now, ..last.clone() };
        match event {
            Event::Change(number) => self.revise(Revision { definition: Ok(numbered(number)), ..next }),
            Event::Pause if !last.paused => self.revise(Revision { paused: true, ..next }),
            Event::Resume if last.paused => self.revise(Revision { paused: false, ..next }),
            Event::Pause | Event::Resume => {}
            Event::Delete => {
                self.revisions.push(Revision { deleted: true, paused: false, ..next });
                if self.next_at.is_some_and(|next| next > self.now) {
                    (self.next_at, self.judge_at) = (None, None);
                }
            }
            Event::Check(max) => while self.check(max) {},
            Event::Crash => drop(self.walks(1_000)),
        }
    }

    fn revise(&mut self, revision: Revision) {
        let first = schedule_of(revision.definition.as_ref().expect("sound")).next(self.now);
        let earlier = self.next_at.into_iter().chain(first).min();
        self.next_at = if self.judge_at.is_none() { first } else { earlier };
        self.judge_at = Some(self.judge_at.map_or(self.now, |judge_at| judge_at.min(self.now)));
        self.revisions.push(revision);
    }

    fn cursor(&self, rest: Option<Rest>) -> Cursor {
        let unmoved = || self.next_at.map_or(at(0), |next| next - STEP);
        let judged_through =
            rest.map_or_else(|| self.judged_through.unwrap_or_else(unmoved), |rest| rest.judged_through);
        let in_force = self.revisions.iter().filter(|revision| revision.in_force_from <= judged_through);
        let from = in_force.map(|revision| revision.in_force_from).max();
        let revisions =
            self.revisions.iter().filter(|revision| from.is_none_or(|from| revision.in_force_from >= from));
        Cursor {
            judged_through,
            through: rest.map(|rest| rest.through),
            ..cursor(0, revisions.cloned().collect())
        }
    }

    /// The walks of what is due.
    fn walks(&self, max: usize) -> Vec<(Cursor, Walk)> {
        let due = |judge_at| judge_at <= self.now;
        let rests = self.rests.values().filter(|rest| due(rest.judge_at)).map(|rest| Some(*rest));
        let cursors = self.judge_at.filter(|judge_at| due(*judge_at)).map(|_| None).into_iter().chain(rests);
        let walk = |cursor| walk(&cursor, &DateSets::default(), self.now, DateTime::UNIX_EPOCH, max);
        cursors.map(|rest| self.cursor(rest)).map(|cursor| (cursor.clone(), walk(cursor))).collect()
    }

    /// One batch; true when more may be due.
    fn check(&mut self, max: usize) -> bool {
        let walks = self.walks(max);
        for (cursor, walk) in &walks {
            for expected in &walk.expected {
                let before = self.ends.insert(expected.occurrence, self.end(expected));
                assert_eq!(before, None, "{} twice", expected.occurrence);
                assert!(expected.deadline + SETTLE <= self.now, "{} too early", expected.occurrence);
            }
            if let Some(advance) = walk.advance {
                self.judged_through = Some(advance.judged_through);
                (self.next_at, self.judge_at) = (advance.next_at, advance.judge_at);
            }
            for rest in &walk.rests {
                self.rests.insert(rest.through, *rest);
            }
            if let (true, Some(through)) = (walk.closed, cursor.through) {
                self.rests.remove(&through);
            }
        }
        !walks.is_empty()
    }
}

fn schedule_of(definition: &Definition) -> Schedule {
    read(definition, &cursor(0, Vec::new()), &DateSets::default()).expect("a sound schedule")
}

/// Every second looked at, with the definition in force at it and the one in force at its deadline: true when its
/// success is waited for, false when it is withdrawn.
fn by_looking_at_each_second(
    revisions: &[Revision],
    through: DateTime<Utc>,
) -> BTreeMap<DateTime<Utc>, bool> {
    let in_force = |instant, inclusive| {
        revisions.iter().rev().find(|revision| {
            revision.in_force_from < instant || (inclusive && revision.in_force_from == instant)
        })
    };
    let seconds = (1..).map(at).take_while(|second| *second <= through);
    let found = seconds.filter_map(|second| {
        let revision = in_force(second, false).filter(|revision| !withdraws(revision))?;
        let definition = revision.definition.as_ref().expect("sound");
        if schedule_of(definition).previous(second) != Some(second) {
            return None;
        }
        let within = Duration::from_std(definition.success_within()?).expect("in range");
        Some((second, in_force(second + within, true).is_none_or(|later| !withdraws(later))))
    });
    found.collect()
}

fn live(first: usize, events: &[(i64, Event)]) -> World {
    let mut world = World::create(first);
    for (wait, event) in events {
        world.now += Duration::milliseconds(*wait);
        world.happens(*event);
    }
    world
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..DEFINITIONS.len()).prop_map(Event::Change),
        2 => Just(Event::Pause),
        2 => Just(Event::Resume),
        1 => Just(Event::Delete),
        6 => select(vec![1_usize, 3, 1_000]).prop_map(Event::Check),
        1 => Just(Event::Crash),
    ]
}

/// After whole seconds more often than not, so that things happen at the very instant of an occurrence or a deadline.
fn any_life() -> impl Strategy<Value = (usize, Vec<(i64, Event)>)> {
    let wait = prop_oneof![3 => (0_i64..=60).prop_map(|second| second * 1_000), 1 => 0_i64..60_000];
    (0..DEFINITIONS.len(), proptest::collection::vec((wait, any_event()), 0..25))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_occurrence_ends_in_exactly_one_way((first, events) in any_life()) {
        let mut world = live(first, &events);
        let lived = world.now;
        world.now += Duration::seconds(600);
        world.happens(Event::Check(1_000));
        for (occurrence, awaited) in by_looking_at_each_second(&world.revisions, lived) {
            prop_assert_eq!(world.ends.remove(&occurrence).is_some(), awaited, "{}", occurrence);
        }
        world.ends.retain(|occurrence, _| *occurrence <= lived);
        prop_assert!(world.ends.is_empty(), "{:?}", world.ends);
    }

    #[test]
    fn neither_a_crash_nor_the_size_of_a_batch_changes_what_is_judged((first, events) in any_life()) {
        let world = live(first, &events);
        let calm: Vec<_> = events
            .iter()
            .map(|(wait, event)| (*wait, match event {
                Event::Crash | Event::Check(_) => Event::Check(1_000),
                other => *other,
            }))
            .collect();
        let after_crashes = {
            let events: Vec<_> = events
                .iter()
                .flat_map(|(wait, event)| match event {
                    Event::Check(max) => vec![(*wait, Event::Crash), (0, Event::Check(*max)), (0, Event::Crash)],
                    Event::Crash => vec![(*wait, Event::Crash), (0, Event::Check(1))],
                    other => vec![(*wait, *other)],
                })
                .collect();
            live(first, &events)
        };
        prop_assert_eq!(&after_crashes.ends, &live(first, &calm).ends);
        prop_assert!(world.ends.len() <= after_crashes.ends.len());
    }
}

/// The lives that are drawn reach each end.
#[test]
fn a_life_can_end_each_way() {
    let world = live(0, &[(100_000, Event::Check(1_000)), (0, Event::Pause), (50_000, Event::Check(1_000))]);
    for end in [End::InTime, End::Alerted, End::Withdrawn] {
        assert!(world.ends.values().any(|found| *found == end), "{end:?} in {:?}", world.ends);
    }
    assert_eq!(judge(Seen::NOTHING, at(0)), Judgement::Missed(Cause::NeverPlanned));
}
