//! Which fields of an expression a local time contradicts, in the expression's own terms.

use crate::bits;
use crate::civil;
use crate::days::Days;
use crate::describe::{MONTHS, WEEKDAYS};
use crate::explain::Reason;
use crate::fields::Fields;

/// Items of what a field allows that are written out.
const ITEMS_MAX: usize = 12;

impl Fields {
    /// The fields that contradict a time of day, in seconds.
    pub(crate) fn against_time(&self, time: i64) -> Vec<Reason> {
        let fields = [
            ("second", self.seconds, time % 60),
            ("minute", self.minutes, time / 60 % 60),
            ("hour", self.hours, time / 3_600),
        ];
        let against = fields.into_iter().filter(|(_, set, value)| set >> value & 1 == 0);
        against
            .map(|(field, set, value)| Reason::Field { field, value: value.to_string(), allowed: items(set) })
            .collect()
    }

    /// The fields that contradict a day.
    pub(crate) fn against_day(&self, day: i64) -> Vec<Reason> {
        let (year, month, of_month) = civil::date(day);
        let mut against = Vec::new();
        let mut refuse =
            |field, value: String, allowed| against.push(Reason::Field { field, value, allowed });
        if !self.years.has(year) {
            refuse("year", year.to_string(), listed(self.years.members()));
        }
        if self.months >> month & 1 == 0 {
            let name = MONTHS[(month as usize + 11) % 12];
            refuse("month", format!("{name} ({month})"), items(self.months));
        }
        let weekday = civil::weekday(day);
        let shown = format!("{} ({weekday})", WEEKDAYS[weekday as usize % 7]);
        let first = civil::weekday(civil::month_start(year, month));
        let (dates, weekdays) = self.days.masks(first, civil::month_length(year, month));
        let (names_date, names_weekday) = (dates >> of_month & 1 == 1, weekdays >> of_month & 1 == 1);
        if self.days.either {
            if !names_date && !names_weekday {
                let allowed = format!("{} or {}", self.days.dates(), self.days.weekdays());
                refuse("day-of-month or day-of-week", format!("{of_month} or {shown}"), allowed);
            }
            return against;
        }
        if !names_date {
            refuse("day-of-month", of_month.to_string(), self.days.dates());
        }
        if !names_weekday {
            refuse("day-of-week", shown, self.days.weekdays());
        }
        against
    }
}

impl Days {
    /// The day-of-month field.
    fn dates(&self) -> String {
        let mut parts = Vec::new();
        if self.of_month != 0 {
            parts.push(items(u64::from(self.of_month)));
        }
        if let Some(special) = &self.special {
            for back in bits::members(u64::from(special.before_last)) {
                parts.push(if back == 0 { "L".to_owned() } else { format!("L-{back}") });
            }
            parts.extend(bits::members(u64::from(special.nearest_weekday)).map(|day| format!("{day}W")));
            if special.last_weekday {
                parts.push("LW".to_owned());
            }
        }
        parts.join(",")
    }

    /// The day-of-week field.
    fn weekdays(&self) -> String {
        let mut parts = Vec::new();
        if self.of_week != 0 {
            parts.push(items(u64::from(self.of_week)));
        }
        if let Some(special) = &self.special {
            parts.extend(bits::members(u64::from(special.last)).map(|day| format!("{day}L")));
            for (nth, weekdays) in (1..).zip(special.nth) {
                parts.extend(bits::members(u64::from(weekdays)).map(|day| format!("{day}#{nth}")));
            }
        }
        parts.join(",")
    }
}

fn items(set: u64) -> String {
    listed(bits::members(set))
}

/// `0,15,30-35`; a long list is cut.
fn listed(values: impl Iterator<Item = u32>) -> String {
    let values: Vec<u32> = values.collect();
    let mut parts: Vec<String> = Vec::new();
    for run in values.chunk_by(|a, b| a + 1 == *b) {
        match run {
            [first, _, .., last] => parts.push(format!("{first}-{last}")),
            few => parts.extend(few.iter().map(ToString::to_string)),
        }
    }
    if parts.len() > ITEMS_MAX {
        parts.truncate(ITEMS_MAX);
        parts.push("…".to_owned());
    }
    parts.join(",")
}
