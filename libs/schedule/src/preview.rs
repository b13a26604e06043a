//! A schedule's next or previous occurrences with what rules did to them, and with what rules took away between them.
//!
//! Invariant: entries that are not dropped are exactly the occurrences, in order; dropped ones stand where they would
//! have happened and don't count (`what_is_dropped_doesnt_count`). Every listing is bounded: of a long row of closed
//! days the first [`DROPPED_MAX`] are listed and the rest is one entry.

use crate::civil::{self, DAY};
use crate::local::Local;
use crate::note::Note;
use crate::odd::wall;
use crate::schedule::{Kind, Schedule};
use crate::walk::{self, Rules};
use crate::way::Way;
use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use model::policy::{CalendarRule, DstFold};

/// Dropped entries that are listed between two occurrences.
pub const DROPPED_MAX: usize = 100;
/// Dropped entries that are looked for between two occurrences.
const COUNTED_MAX: usize = 1_100;

/// What a rule did to a wall-clock time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It happens later or earlier than named: after a gap, or on another day.
    Moved,
    /// It happens twice.
    Doubled,
    /// It does not happen.
    Dropped,
}

/// One line of a preview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The occurrence; of a time that clocks skip, the first instant after the gap.
    pub at: DateTime<Utc>,
    /// That on the clocks of the schedule's zone, with offset; a time that clocks skip has none.
    pub local: String,
    /// What rules did; nothing on ordinary days.
    pub notes: Vec<Note>,
    /// That in a word; none when the time happens once, as named.
    pub effect: Option<Effect>,
}

impl Entry {
    /// True when it does not happen and therefore does not count.
    pub fn is_dropped(&self) -> bool {
        self.effect == Some(Effect::Dropped)
    }

    /// All notes as one text; none when there are none.
    pub fn note(&self) -> Option<String> {
        let notes: Vec<String> = self.notes.iter().map(ToString::to_string).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// A part of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Occurrences in the order asked for, with the dropped ones between them.
    pub entries: Vec<Entry>,
    /// There are fewer occurrences than were asked for.
    pub exhausted: bool,
}

/// A wall-clock time that does not happen.
struct Dropped {
    at: i64,
    local: String,
    note: Note,
}

impl Schedule {
    /// Up to `count` occurrences: forward those strictly after `from`, backward those at or before it.
    pub fn preview(&self, from: DateTime<Utc>, count: usize, way: Way) -> Preview {
        let (first, last) = self.bounds();
        let mut entries = Vec::new();
        let from = from.timestamp();
        let mut begin = if way == Way::Forward { from + 1 } else { from };
        // Through here everything is listed. A gap's times belong before the instant that ends it.
        let mut reached = from.clamp(first - 1, last);
        for _ in 0..count {
            let found = self.find(begin, way);
            let (low, high) = match way {
                Way::Forward => (reached, found.unwrap_or(last)),
                Way::Backward => (found.unwrap_or(first - 1), reached),
            };
            entries.extend(self.dropped(low, high, way));
            let Some(found) = found else { return Preview { entries, exhausted: true } };
            entries.extend(self.entry(found));
            (begin, reached) = (way.from(found, 1), found);
        }
        Preview { entries, exhausted: false }
    }

    fn entry(&self, t: i64) -> Option<Entry> {
        let at = DateTime::from_timestamp(t, 0)?;
        let notes = self.notes(at);
        let effect = self.effect(&notes);
        Some(Entry { at, local: self.local_text(at), notes, effect })
    }

    fn local_text(&self, at: DateTime<Utc>) -> String {
        self.local_time(at).to_rfc3339_opts(SecondsFormat::Secs, false)
    }

    fn effect(&self, notes: &[Note]) -> Option<Effect> {
        use crate::odd::Oddity::{AfterGap, FirstPass, SecondPass};
        let doubles = match &self.kind {
            Kind::Wall { local, rules, .. } => rules.fold == DstFold::Both && !local.is_elapsed(),
            Kind::Every(_) => false,
        };
        let moved = |note: &Note| matches!(note, Note::Moved { .. } | Note::Clock(AfterGap { .. }));
        let doubled = |note: &Note| doubles && matches!(note, Note::Clock(FirstPass | SecondPass));
        if notes.iter().any(doubled) {
            return Some(Effect::Doubled);
        }
        notes.iter().any(moved).then_some(Effect::Moved)
    }

    /// What does not happen after `low`, through `high`, where nothing happens but at `high` or at `low`.
    fn dropped(&self, low: i64, high: i64, way: Way) -> Vec<Entry> {
        let mut dropped = Vec::new();
        if low < high {
            if let Kind::Wall { local, rules, .. } = &self.kind {
                self.drop_passes(local, *rules, (low, high), way, &mut dropped);
                self.drop_missing(local, *rules, (low, high), way, &mut dropped);
            }
            self.drop_closed((low, high), way, &mut dropped);
        }
        dropped.sort_by(|a, b| match way {
            Way::Forward => (a.at, &a.local).cmp(&(b.at, &b.local)),
            Way::Backward => (b.at, &b.local).cmp(&(a.at, &a.local)),
        });
        let more = dropped.len().saturating_sub(DROPPED_MAX);
        let at_least = dropped.len() >= COUNTED_MAX;
        if more > 0 {
            dropped.truncate(DROPPED_MAX + 1);
            if let Some(last) = dropped.last_mut() {
                last.note = Note::More { count: more, at_least };
            }
        }
        let entry = |Dropped { at, local, note }: Dropped| {
            let at = DateTime::from_timestamp(at, 0)?;
            Some(Entry { at, local, notes: vec![note], effect: Some(Effect::Dropped) })
        };
        dropped.into_iter().filter_map(entry).collect()
    }

    /// The passes of repeated times that don't count.
    fn drop_passes(
        &self,
        local: &Local,
        rules: Rules,
        (low, high): (i64, i64),
        way: Way,
        dropped: &mut Vec<Dropped>,
    ) {
        if rules.fold == DstFold::Both {
            return;
        }
        let both = Rules { after_gap: false, fold: DstFold::Both };
        let mut from = if way == Way::Forward { low + 1 } else { high };
        while let Some(at) =
            walk::find(local, self.zone(), both, from, way).filter(|at| (low + 1..=high).contains(at))
        {
            if dropped.len() >= COUNTED_MAX {
                return;
            }
            if self.find(at, Way::Forward) != Some(at)
                && let Some(instant) = DateTime::from_timestamp(at, 0)
            {
                let note = Note::OtherPass { counts: rules.fold };
                dropped.push(Dropped { at, local: self.local_text(instant), note });
            }
            from = way.from(at, 1);
        }
    }

    /// The times that clocks skip.
    fn drop_missing(
        &self,
        local: &Local,
        rules: Rules,
        (low, high): (i64, i64),
        way: Way,
        dropped: &mut Vec<Dropped>,
    ) {
        if rules.after_gap || local.is_elapsed() {
            return;
        }
        let zone = self.zone();
        let mut stretches: Vec<usize> = (zone.stretch_at(low) + 1..=zone.stretch_at(high)).collect();
        if way == Way::Backward {
            stretches.reverse();
        }
        for stretch in stretches {
            let (from, to) = (zone.local_end(stretch - 1), zone.local_start(stretch));
            let missing = |at: &i64| (from..to).contains(at);
            let mut next = local.find(if way == Way::Forward { from } else { to - 1 }, way).filter(missing);
            while let Some(at) = next {
                if dropped.len() >= COUNTED_MAX {
                    return;
                }
                let note = Note::Missing { from: wall(from), to: wall(to) };
                dropped.push(Dropped { at: zone.start(stretch), local: text(wall(at)), note });
                next = local.find(way.from(at, 1), way).filter(missing);
            }
        }
    }

    /// One entry for each closed day whose occurrences don't happen, at the first of them in the order asked for.
    fn drop_closed(&self, (low, high): (i64, i64), way: Way, dropped: &mut Vec<Dropped>) {
        let Some(calendars) = self.calendars() else { return };
        let named = self.without_calendars();
        let zone = self.zone();
        let mut from = if way == Way::Forward { low + 1 } else { high };
        let mut listed = None;
        for _ in 0..COUNTED_MAX * 4 {
            let Some(at) = named.find(from, way).filter(|at| (low + 1..=high).contains(at)) else { return };
            let here = match &named.kind {
                Kind::Wall { local, .. } => named.wall_of(local, at),
                Kind::Every(_) => at + zone.offset(zone.stretch_at(at)),
            };
            let day = here.div_euclid(DAY);
            if listed != Some(day) && calendars.target(day).is_none() {
                listed = Some(day);
                if dropped.len() >= COUNTED_MAX {
                    return;
                }
                let closed = civil::date_of(day).and_then(|date| Some((date, calendars.closes(date)?)));
                if let (Some((date, by)), Some(instant)) = (closed, DateTime::from_timestamp(at, 0)) {
                    let too_far = calendars.rule != CalendarRule::Skip;
                    let note = Note::Closed { date, by, too_far };
                    dropped.push(Dropped { at, local: self.local_text(instant), note });
                }
            }
            // On to the next day of the clock, but not past a clock change.
            let stretch = zone.stretch_at(at);
            let second = (at + zone.offset(stretch)).rem_euclid(DAY);
            let rest = if way == Way::Forward { DAY - second } else { second + 1 };
            from = way.nearer(way.from(at, rest), zone.edge(stretch, way));
        }
    }
}

fn text(wall: NaiveDateTime) -> String {
    wall.format("%Y-%m-%dT%H:%M:%S").to_string()
}
