//! `@every`: a steady interval in elapsed time, on the local days that calendars leave open.

use crate::calendar::OpenDays;
use crate::civil::DAY;
use crate::way::Way;
use crate::zone::{FIRST_INSTANT, LAST_INSTANT, Zone};
use std::sync::Arc;

/// `anchor` and each `step` seconds after it.
#[derive(Debug, Clone)]
pub(crate) struct Every {
    /// The first beat.
    pub anchor: i64,
    /// Seconds between beats.
    pub step: i64,
    /// Whose days calendars close.
    pub zone: Arc<Zone>,
    /// Beats on closed days don't happen; none when no day is closed.
    pub calendars: Option<Arc<OpenDays>>,
}

impl Every {
    /// The nearest beat on an open day.
    pub(crate) fn find(&self, from: i64, way: Way) -> Option<i64> {
        let mut beat = self.beat(from, way)?;
        let Some(calendars) = &self.calendars else { return Some(beat) };
        while (FIRST_INSTANT..=LAST_INSTANT).contains(&beat) {
            let stretch = self.zone.stretch_at(beat);
            let day = (beat + self.zone.offset(stretch)).div_euclid(DAY);
            let open = calendars.open(day, way);
            if open == Some(day) {
                return Some(beat);
            }
            // A clock change may bring back an open day, so that the search stops at each.
            let turn = self.zone.edge(stretch, way);
            let begins = open.map_or(turn, |open| {
                let second = if way == Way::Forward { open * DAY } else { open * DAY + DAY - 1 };
                second - self.zone.offset(stretch)
            });
            beat = self.beat(way.nearer(begins, turn), way)?;
        }
        None
    }

    /// The nearest beat, on an open day or not.
    pub(crate) fn beat(&self, from: i64, way: Way) -> Option<i64> {
        match way {
            Way::Forward if from <= self.anchor => Some(self.anchor),
            Way::Forward => {
                let steps = (from - self.anchor).checked_add(self.step - 1)?.div_euclid(self.step);
                self.anchor.checked_add(steps.checked_mul(self.step)?)
            }
            Way::Backward => {
                let steps = (from - self.anchor).div_euclid(self.step);
                (steps >= 0).then_some(self.anchor + steps * self.step)
            }
        }
    }
}
