//! The life of an alert: open, then acknowledged or silenced by people, and resolved in the end.
//!
//! Pure. Invariants: what is resolved stays so; who has acknowledged an alert is told of it no more until it is
//! resolved; a silence only delays: an alert that outlives it is told again at once. What opens and what ends an
//! alert is found elsewhere; here is what follows from it.

use crate::policy::named;
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Between two tellings of an alert that nobody has acknowledged, unless its owner says otherwise. Long enough for a
/// night's repair, short enough that a page which was slept through is seen in the morning.
pub const REPEAT_DEFAULT: Duration = Duration::from_secs(4 * 3_600);

/// A silence may last this long: an alert that nobody wants for longer should not be raised.
pub const SILENCE_MAX: Duration = Duration::from_secs(30 * 86_400);

named! {
    /// Where an alert is in its life.
    State {
        /// Somebody should look after it.
        Open = "OPEN",
        /// Somebody does.
        Acknowledged = "ACKNOWLEDGED",
        /// It is not to be told of for a while.
        Silenced = "SILENCED",
        /// It is over.
        Resolved = "RESOLVED",
    }
}

named! {
    /// What is told of an alert, and how its history names it.
    Telling {
        /// It was opened.
        Opened = "OPENED",
        /// It is still open, and nobody looks after it.
        Repeated = "REPEATED",
        /// Somebody looks after it.
        Acknowledged = "ACKNOWLEDGED",
        /// It is over.
        Resolved = "RESOLVED",
    }
}

/// What decides how an alert's life goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Life {
    /// Somebody has acknowledged it.
    pub acknowledged: bool,
    /// It is not told of before.
    pub silenced_until: Option<DateTime<Utc>>,
    /// It is over.
    pub resolved: bool,
    /// Nobody was told of it: another alert tells of the same.
    pub untold: bool,
    /// When it is told again; of one that is untold, when its opening is told.
    pub next_repeat_at: Option<DateTime<Utc>>,
}

/// What happens to an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// There is one more thing to complain about; `elsewhere` when another open alert tells of it.
    Complaint {
        /// Another open alert tells of the same.
        elsewhere: bool,
    },
    /// Somebody says that they look after it.
    Acknowledge,
    /// Somebody wants to hear nothing of it until then.
    Silence(DateTime<Utc>),
    /// Time passes.
    Look,
    /// It is over, by itself or because somebody says so.
    Resolve,
}

/// What follows from an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The alert from now on.
    pub life: Life,
    /// What is to be told, to those who were or should have been told of the opening.
    pub telling: Option<Telling>,
}

/// Why an event is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing happens to an alert that is over.
    #[error("is resolved: there is nothing left to look after")]
    Resolved,
    /// Who has acknowledged an alert hears nothing of it already.
    #[error("is acknowledged: it is not told again, so there is nothing to silence")]
    Acknowledged,
    /// A silence in the past, or one without end.
    #[error("would be silenced until an instant that is not between now and 30 days from now")]
    Silence,
}

impl Life {
    /// Where it is at `at`.
    pub fn state(&self, at: DateTime<Utc>) -> State {
        if self.resolved {
            State::Resolved
        } else if self.acknowledged {
            State::Acknowledged
        } else if self.silenced_until.is_some_and(|until| until > at) {
            State::Silenced
        } else {
            State::Open
        }
    }

    /// What follows from `event` at `at`; `repeat` is how often it is told again, zero never.
    ///
    /// # Errors
    /// [`Refused`] when a person asks for what is impossible. What the watchdog finds is never refused.
    pub fn on(self, event: Event, at: DateTime<Utc>, repeat: Duration) -> Result<Step, Refused> {
        let same = Step { life: self, telling: None };
        match (event, self.state(at)) {
            (Event::Complaint { .. } | Event::Look | Event::Resolve, State::Resolved) => Ok(same),
            (_, State::Resolved) => Err(Refused::Resolved),
            // What nobody was told of, because another alert did, is told as soon as there is something new: at the end of
            // a silence, and not to whom looks after it already.
            (Event::Complaint { elsewhere: false }, State::Open) if self.untold => {
                let life = Life { untold: false, next_repeat_at: next(at, repeat), ..self };
                Ok(Step { life, telling: Some(Telling::Opened) })
            }
            (Event::Complaint { elsewhere: false }, State::Silenced) if self.untold => {
                Ok(Step { life: Life { next_repeat_at: self.silenced_until, ..self }, telling: None })
            }
            (Event::Complaint { .. }, _) => Ok(same),
            (Event::Acknowledge, State::Acknowledged) => Ok(same),
            (Event::Acknowledge, _) => {
                let life = Life { acknowledged: true, silenced_until: None, next_repeat_at: None, ..self };
                Ok(Step { life, telling: self.told(Telling::Acknowledged) })
            }
            (Event::Silence(_), State::Acknowledged) => Err(Refused::Acknowledged),
            (Event::Silence(until), _) if !is_silence(until, at) => Err(Refused::Silence),
            (Event::Silence(until), _) => {
                // It is told again when the silence ends, however often it is told else.
                let next_repeat_at = (!self.untold || self.next_repeat_at.is_some()).then_some(until);
                Ok(Step { life: Life { silenced_until: Some(until), next_repeat_at, ..self }, telling: None })
            }
            (Event::Look, State::Open) if self.next_repeat_at.is_some_and(|next| next <= at) => {
                let next_repeat_at = next(at, repeat);
                let life = Life { silenced_until: None, untold: false, next_repeat_at, ..self };
                let telling = if self.untold { Telling::Opened } else { Telling::Repeated };
                Ok(Step { life, telling: Some(telling) })
            }
            (Event::Look, _) => Ok(same),
            (Event::Resolve, _) => {
                let life = Life { resolved: true, next_repeat_at: None, ..self };
                Ok(Step { life, telling: self.told(Telling::Resolved) })
            }
        }
    }

    /// Who was not told of the opening is told nothing else.
    fn told(&self, telling: Telling) -> Option<Telling> {
        (!self.untold).then_some(telling)
    }
}

/// When an alert that is told at `at` is told again.
pub fn next(at: DateTime<Utc>, repeat: Duration) -> Option<DateTime<Utc>> {
    let repeat = TimeDelta::from_std(repeat).ok().filter(|repeat| !repeat.is_zero())?;
    at.checked_add_signed(repeat)
}

fn is_silence(until: DateTime<Utc>, at: DateTime<Utc>) -> bool {
    (until - at).to_std().is_ok_and(|length| !length.is_zero() && length <= SILENCE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(hour: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(hour * 3_600, 0).expect("in range")
    }

    /// At hour 1: told at 0, to be told again at 1.
    fn in_state(state: State) -> Life {
        let open = Life { next_repeat_at: Some(at(1)), ..Life::default() };
        match state {
            State::Open => open,
            State::Acknowledged => Life { acknowledged: true, next_repeat_at: None, ..open },
            State::Silenced => Life { silenced_until: Some(at(2)), next_repeat_at: Some(at(2)), ..open },
            State::Resolved => Life { resolved: true, next_repeat_at: None, ..open },
        }
    }

    #[test]
    fn every_state_has_an_answer_to_every_event() {
        use State::{Acknowledged, Open, Resolved, Silenced};
        type Answer = Result<(State, Option<Telling>), Refused>;
        let complaint = Event::Complaint { elsewhere: false };
        let (silence, endless) = (Event::Silence(at(3)), Event::Silence(at(2_000)));
        let (told, same) = (|state, telling| Ok((state, Some(telling))), |state| Ok((state, None)));
        let table: [(State, Event, Answer); 24] = [
            (Open, complaint, same(Open)),
            (Open, Event::Acknowledge, told(Acknowledged, Telling::Acknowledged)),
            (Open, silence, same(Silenced)),
            (Open, endless, Err(Refused::Silence)),
            (Open, Event::Look, told(Open, Telling::Repeated)),
            (Open, Event::Resolve, told(Resolved, Telling::Resolved)),
            (Acknowledged, complaint, same(Acknowledged)),
            (Acknowledged, Event::Acknowledge, same(Acknowledged)),
            (Acknowledged, silence, Err(Refused::Acknowledged)),
            (Acknowledged, endless, Err(Refused::Acknowledged)),
            (Acknowledged, Event::Look, same(Acknowledged)),
            (Acknowledged, Event::Resolve, told(Resolved, Telling::Resolved)),
            (Silenced, complaint, same(Silenced)),
            (Silenced, Event::Acknowledge, told(Acknowledged, Telling::Acknowledged)),
            (Silenced, silence, same(Silenced)),
            (Silenced, endless, Err(Refused::Silence)),
            (Silenced, Event::Look, same(Silenced)),
            (Silenced, Event::Resolve, told(Resolved, Telling::Resolved)),
            (Resolved, complaint, same(Resolved)),
            (Resolved, Event::Acknowledge, Err(Refused::Resolved)),
            (Resolved, silence, Err(Refused::Resolved)),
            (Resolved, endless, Err(Refused::Resolved)),
            (Resolved, Event::Look, same(Resolved)),
            (Resolved, Event::Resolve, same(Resolved)),
        ];
        for state in State::ALL {
            assert_eq!(table.iter().filter(|(from, _, _)| from == state).count(), 6, "{state}");
        }
        for (state, event, answer) in table {
            let life = in_state(state);
            assert_eq!(life.state(at(1)), state);
            let found = life.on(event, at(1), HOUR).map(|step| (step.life.state(at(1)), step.telling));
            assert_eq!(found, answer, "{state} and {event:?}");
        }
    }

    #[test]
    fn it_is_repeated_each_time_the_interval_has_passed_and_never_with_none() {
        let look = |life: Life, hour, repeat| life.on(Event::Look, at(hour), repeat).expect("never refused");
        let early = look(in_state(State::Open), 0, HOUR);
        assert_eq!(early.telling, None);
        let due = look(early.life, 1, HOUR);
        assert_eq!((due.telling, due.life.next_repeat_at), (Some(Telling::Repeated), Some(at(2))));
        let last = look(due.life, 2, Duration::ZERO);
        assert_eq!((last.telling, last.life.next_repeat_at), (Some(Telling::Repeated), None));
        assert_eq!(look(last.life, 900, HOUR).telling, None);
    }

    #[test]
    fn what_outlives_its_silence_is_told_again_even_if_it_is_never_repeated() {
        let open = Life { next_repeat_at: None, ..in_state(State::Open) };
        let silenced = open.on(Event::Silence(at(3)), at(1), Duration::ZERO).expect("a sound silence").life;
        assert_eq!(silenced.on(Event::Look, at(2), Duration::ZERO).expect("never refused").telling, None);
        let over = silenced.on(Event::Look, at(3), Duration::ZERO).expect("never refused");
        assert_eq!((over.telling, over.life.state(at(3))), (Some(Telling::Repeated), State::Open));
        assert_eq!(over.life.on(Event::Look, at(9), Duration::ZERO).expect("never refused").telling, None);
    }

    #[test]
    fn what_another_alert_tells_of_is_told_only_when_something_is_new() {
        let quiet = Life { untold: true, next_repeat_at: None, ..Life::default() };
        let on = |life: Life, event| life.on(event, at(1), HOUR).expect("sound");
        assert_eq!(on(quiet, Event::Complaint { elsewhere: true }).telling, None);
        assert_eq!(on(quiet, Event::Resolve).telling, None, "who knows of no opening hears of no end");
        assert_eq!(on(quiet, Event::Acknowledge).telling, None);
        let new = on(quiet, Event::Complaint { elsewhere: false });
        assert_eq!((new.telling, new.life.next_repeat_at), (Some(Telling::Opened), Some(at(2))));
        assert_eq!(on(new.life, Event::Resolve).telling, Some(Telling::Resolved));
    }

    #[test]
    fn what_nobody_was_told_of_is_told_after_a_silence_and_not_to_whom_looks_after_it() {
        let quiet = Life { untold: true, next_repeat_at: None, ..Life::default() };
        let on = |life: Life, event, hour| life.on(event, at(hour), HOUR).expect("sound");
        let new = Event::Complaint { elsewhere: false };
        let acknowledged = on(on(quiet, Event::Acknowledge, 1).life, new, 1);
        assert_eq!((acknowledged.telling, acknowledged.life.next_repeat_at), (None, None));
        assert_eq!(on(acknowledged.life, Event::Look, 900).telling, None);

        let silenced = on(quiet, Event::Silence(at(3)), 1).life;
        assert_eq!(on(silenced, Event::Look, 3).telling, None, "nothing new has come");
        let waiting = on(silenced, new, 2);
        assert_eq!((waiting.telling, waiting.life.next_repeat_at), (None, Some(at(3))));
        assert_eq!(on(waiting.life, new, 2), Step { life: waiting.life, telling: None });
        assert_eq!(on(waiting.life, Event::Silence(at(4)), 2).life.next_repeat_at, Some(at(4)));
        assert_eq!(on(waiting.life, Event::Resolve, 2).telling, None);
        let told = on(waiting.life, Event::Look, 3);
        assert_eq!((told.telling, told.life.next_repeat_at), (Some(Telling::Opened), Some(at(4))));
        assert_eq!(on(told.life, Event::Look, 4).telling, Some(Telling::Repeated));
    }
}
