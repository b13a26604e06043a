//! A set as a person wrote it, and everything that is wrong with it.

use crate::calendars::{self, Written as WrittenCalendar};
use crate::channels::{self, Written as WrittenChannel};
use crate::check_ins::{self, Written as WrittenCheckIn};
use crate::definition::{self, Given};
use crate::job_list;
use crate::references::Known;
use model::job::Definition;
use model::validate::FieldError;
use rpc::v1;
use std::collections::{BTreeMap, BTreeSet};

/// Jobs of a set.
const JOBS_MAX: usize = 10_000;
/// Channels of a set.
const CHANNELS_MAX: usize = 1_000;
/// Calendars of a set.
const CALENDARS_MAX: usize = 1_000;
/// Check-ins of a set.
const CHECK_INS_MAX: usize = 1_000;

/// A set as a person wrote it. When `errors` are not empty, only what is right is in `channels`, `calendars` and
/// `check_ins`.
#[derive(Default)]
pub struct Set {
    pub channels: Vec<WrittenChannel>,
    pub calendars: Vec<WrittenCalendar>,
    /// Each with its place in the request.
    pub check_ins: Vec<(usize, WrittenCheckIn)>,
    pub jobs: Vec<Given>,
    /// Jobs that have all of these labels and are not in the set are deleted; none are when it is empty.
    pub prune: BTreeMap<String, String>,
    /// Nothing is to be stored.
    pub dry_run: bool,
    /// What is wrong with its members in themselves.
    pub errors: Vec<FieldError>,
    /// Names of channels that are in it and wrong.
    wrong_channels: Vec<String>,
    /// Names of calendars that are in it and wrong.
    wrong_calendars: Vec<String>,
}

impl Set {
    /// Reads a set; what is wrong with its members is in [`Set::errors`].
    ///
    /// # Errors
    /// When it is too large to be read at all.
    pub fn read(request: v1::ApplyRequest) -> Result<Self, Vec<FieldError>> {
        let sizes = [
            ("jobs", request.jobs.len(), JOBS_MAX),
            ("channels", request.channels.len(), CHANNELS_MAX),
            ("calendars", request.calendars.len(), CALENDARS_MAX),
            ("checkIns", request.check_ins.len(), CHECK_INS_MAX),
        ];
        let too_large = sizes.into_iter().filter(|(_, found, most)| found > most);
        let too_large: Vec<_> = too_large
            .map(|(field, found, most)| {
                FieldError::new(field, format!("{found} of them: use at most {most}"))
            })
            .collect();
        if !too_large.is_empty() {
            return Err(too_large);
        }
        let mut set = Self { dry_run: request.dry_run, ..Self::default() };
        if let Some(prune) = &request.prune {
            set.prune = selector(prune, &mut set.errors);
        }
        let mut names = BTreeSet::new();
        for (index, channel) in request.channels.iter().enumerate() {
            set.repeated(&mut names, "channels", index, &channel.name);
            match channels::read(channel) {
                Ok(written) => set.channels.push(written),
                Err(errors) => {
                    set.wrong_channels.push(channel.name.clone());
                    set.wrong("channels", index, &errors);
                }
            }
        }
        names.clear();
        for (index, calendar) in request.calendars.iter().enumerate() {
            set.repeated(&mut names, "calendars", index, &calendar.name);
            match calendars::read(calendar) {
                Ok(written) => set.calendars.push(written),
                Err(errors) => {
                    set.wrong_calendars.push(calendar.name.clone());
                    set.wrong("calendars", index, &errors);
                }
            }
        }
        names.clear();
        for (index, one) in request.check_ins.iter().enumerate() {
            set.repeated(&mut names, "checkIns", index, &one.name);
            match check_ins::read(one) {
                Ok(written) => set.check_ins.push((index, written)),
                Err(errors) => set.wrong("checkIns", index, &errors),
            }
        }
        names.clear();
        for (index, job) in request.jobs.iter().enumerate() {
            set.repeated(&mut names, "jobs", index, &job.name);
            let given = definition::read(job);
            set.wrong("jobs", index, &given.errors);
            set.jobs.push(given);
        }
        Ok(set)
    }

    fn repeated(&mut self, names: &mut BTreeSet<String>, list: &str, index: usize, name: &str) {
        if !name.is_empty() && !names.insert(name.to_owned()) {
            let message = format!("{name:?} is in this set already: name each once");
            self.errors.push(FieldError::new(format!("{list}[{index}].name"), message));
        }
    }

    fn wrong(&mut self, list: &str, index: usize, errors: &[FieldError]) {
        let place = |error: &FieldError| {
            FieldError::new(format!("{list}[{index}].{}", error.field), error.message.clone())
        };
        self.errors.extend(errors.iter().map(place));
    }

    /// Whether a job of this definition that is not in the set is to be deleted.
    pub fn prunes(&self, definition: &Definition) -> bool {
        !self.prune.is_empty()
            && self.prune.iter().all(|(key, value)| definition.labels.get(key) == Some(value))
    }

    /// The names of the channels that it defines.
    pub fn channel_names(&self) -> Vec<&str> {
        self.channels.iter().map(|channel| channel.name.as_str()).collect()
    }

    /// The names of the calendars that it defines.
    pub fn calendar_names(&self) -> Vec<&str> {
        self.calendars.iter().map(|calendar| calendar.name.as_str()).collect()
    }

    /// The names of its check-ins.
    pub fn check_in_names(&self) -> Vec<&str> {
        self.check_ins.iter().map(|(_, one)| one.name.as_str()).collect()
    }

    /// Every wrong field, once it is known what there is beside the set.
    pub fn errors_with(&self, known: &Known) -> Vec<FieldError> {
        let mut known = known.clone();
        // Those that are wrong too: they need not be created first, but mended.
        for name in self.channel_names().into_iter().chain(self.wrong_channels.iter().map(String::as_str)) {
            known.add_channel(name);
        }
        let calendars = self.calendars.iter().map(|calendar| &calendar.name).chain(&self.wrong_calendars);
        for name in calendars {
            known.add_calendar(name, 0, &[]);
        }
        let mut errors = self.errors.clone();
        for (index, one) in &self.check_ins {
            let place = format!("checkIns[{index}].channels");
            errors.extend(known.unknown_channels(&place, &one.definition.channels));
        }
        for (index, job) in self.jobs.iter().enumerate() {
            errors.extend(known.unknown(&format!("jobs[{index}]."), &job.named));
        }
        errors
    }
}

/// The labels whose jobs are pruned. Without any, every job of the tenant would be.
fn selector(prune: &v1::Prune, errors: &mut Vec<FieldError>) -> BTreeMap<String, String> {
    let (labels, keys) = job_list::labels("prune.labels", &prune.labels, errors);
    if prune.labels.is_empty() {
        let message =
            "is empty, and would mean every job: name a label that the set's jobs carry, as team=billing";
        errors.push(FieldError::new("prune.labels", message));
    }
    for key in keys {
        errors.push(FieldError::new("prune.labels", format!("{key:?}: use key=value")));
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ids::TenantId;

    #[test]
    fn wrong_fields_are_named_with_their_place_and_names_must_differ() {
        let job = |name: &str, schedule: &str| v1::Job {
            name: name.to_owned(),
            schedule: schedule.to_owned(),
            run: Some(v1::Run {
                kind: Some(v1::run::Kind::Handler(v1::Handler {
                    name: "h".to_owned(),
                    payload: String::new(),
                })),
            }),
            alert: Some(v1::JobAlert { channels: vec!["oncall".to_owned()], ..v1::JobAlert::default() }),
            ..v1::Job::default()
        };
        let check_in = |name: &str, schedule: &str| v1::CheckIn {
            name: name.to_owned(),
            schedule: schedule.to_owned(),
            channels: vec!["oncall".to_owned()],
            ..v1::CheckIn::default()
        };
        let jobs = vec![job("a", "* * * * *"), job("a", "* * * * *"), job("b", "61 * * * *")];
        let set = Set::read(v1::ApplyRequest {
            jobs,
            channels: vec![v1::Channel::default()],
            calendars: vec![v1::Calendar { dates: vec!["2026-13-01".to_owned()], ..v1::Calendar::default() }],
            check_ins: vec![check_in("c", "@daily"), check_in("c", "")],
            ..v1::ApplyRequest::default()
        })
        .ok();
        let set = set.expect("not too large");
        let known = Known::new(TenantId::DEFAULT, &[], &[]);
        let errors = set.errors_with(&known);
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        let expected = [
            "channels[0].name",
            "channels[0].webhook",
            "calendars[0].name",
            "calendars[0].dates[0]",
            "checkIns[1].name",
            "checkIns[1].schedule",
            "jobs[1].name",
            "jobs[2].schedule",
            "checkIns[0].channels[0]",
            "jobs[0].alert.channels[0]",
            "jobs[1].alert.channels[0]",
            "jobs[2].alert.channels[0]",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn what_is_in_the_set_and_wrong_itself_need_not_be_created_first() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let job = v1::Job {
            alert: Some(v1::JobAlert { channels: names(&["oncall", "nobody"]), ..v1::JobAlert::default() }),
            calendars: Some(v1::JobCalendars {
                only: names(&["work", "never"]),
                ..v1::JobCalendars::default()
            }),
            ..v1::Job::default()
        };
        let check_in = v1::CheckIn {
            name: "c".to_owned(),
            schedule: "@daily".to_owned(),
            channels: names(&["oncall", "nobody"]),
            ..v1::CheckIn::default()
        };
        let set = Set::read(v1::ApplyRequest {
            jobs: vec![job],
            channels: vec![v1::Channel { name: "oncall".to_owned(), ..v1::Channel::default() }],
            calendars: vec![v1::Calendar {
                name: "work".to_owned(),
                dates: names(&["2026-13-01"]),
                ..v1::Calendar::default()
            }],
            check_ins: vec![check_in],
            ..v1::ApplyRequest::default()
        });
        let errors = set.expect("not too large").errors_with(&Known::new(TenantId::DEFAULT, &[], &[]));
        let unknown = errors.iter().map(|error| error.field.as_str()).filter(|field| {
            ["].channels[", "].alert.channels[", "].calendars."].iter().any(|part| field.contains(part))
        });
        let expected = ["checkIns[0].channels[1]", "jobs[0].calendars.only[1]", "jobs[0].alert.channels[1]"];
        assert_eq!(unknown.collect::<Vec<_>>(), expected, "{errors:?}");
    }

    #[test]
    fn nothing_is_pruned_by_no_label_and_by_no_value() {
        let errors = |labels: &[&str]| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            let mut errors = Vec::new();
            selector(&v1::Prune { labels }, &mut errors);
            errors.len()
        };
        assert_eq!((errors(&[]), errors(&["team"]), errors(&["team="]), errors(&["team=a"])), (1, 1, 0, 0));
    }

    #[test]
    fn a_set_that_is_too_large_is_refused_unread() {
        let jobs = vec![v1::Job::default(); JOBS_MAX + 1];
        let errors =
            Set::read(v1::ApplyRequest { jobs, ..v1::ApplyRequest::default() }).err().expect("too large");
        assert_eq!(errors[0].field, "jobs");
    }
}
