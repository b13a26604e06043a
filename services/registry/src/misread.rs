//! Everything that is wrong with a definition of which something could not be read, such as a duration that is none.
//!
//! Owns what REST's gateway is to say of such a request: what could not be read, and what is wrong with the rest in itself.
//! Invariant: nothing is said of a field that could not be read, nor of one that is only wrong because of such a field.
//! Deliberately not here: what only the database knows, such as names of channels that are not there; that is said once
//! everything can be read.

use crate::apply::Set;
use crate::failure::bounded;
use crate::tokens::Written as WrittenToken;
use crate::{calendars, channels, check_ins, definition};
use model::validate::FieldError;
use prost::Message;
use rpc::transcode::Unread;
use rpc::v1;

/// Fields whose being right depends on others, with these; within one definition.
const DEPENDENT: [(&str, &str); 13] = [
    ("alert.on.runtimeOver", "maxRuntime"),
    ("calendars.rule", "calendars."),
    ("run.exec.argv", "run.exec."),
    ("run.exec.shell", "run.exec."),
    ("run.http.secretHeaders", "run.http.headers"),
    ("schedule", "period"),
    ("period", "schedule"),
    ("webhook", "alertmanager"),
    ("webhook", "pagerduty"),
    ("webhook", "slack"),
    ("webhook", "email"),
    ("everyTenant", "role"),
    ("tenant", "everyTenant"),
];

/// The same of check-ins alone: they have a timezone only beside a schedule, where a job's is judged by itself.
const DEPENDENT_IN_CHECK_INS: [(&str, &str); 1] = [("timezone", "schedule")];

/// What is wrong with a request to `rpc` whose `input` lacks what is `unread`: the first of all that is, and how much more.
pub fn judge(rpc: &str, input: &[u8], unread: Unread) -> Vec<FieldError> {
    let Unread { mut errors, more, meant } = unread;
    // Where not all that is unread is known by name, what only follows from it could not be told apart.
    if more > 0 {
        return bounded(errors, more);
    }
    let fields: Vec<_> = errors.iter().map(|error| error.field.clone()).chain(meant).collect();
    let found = in_itself(rpc, input).unwrap_or_default();
    errors.extend(found.into_iter().filter(|error| !follows(rpc, &error.field, &fields)));
    bounded(errors, 0)
}

/// What is wrong with what could be read. None of methods that write no definition.
fn in_itself(rpc: &str, input: &[u8]) -> Option<Vec<FieldError>> {
    let job = |job: Option<v1::Job>| Some(definition::read(&job?).errors);
    let calendar = |calendar: Option<v1::Calendar>| calendars::read(&calendar?).err();
    let check_in = |check_in: Option<v1::CheckIn>| check_ins::read(&check_in?).err();
    match rpc {
        "Apply" => Some(Set::read(read(input)?).map_or_else(|errors| errors, |set| set.errors)),
        "CreateJob" => job(read::<v1::CreateJobRequest>(input)?.job),
        "UpdateJob" => {
            let v1::UpdateJobRequest { job: written, .. } = read(input)?;
            let unnamed = written.as_ref().is_some_and(|job| job.name.is_empty());
            let errors = job(written)?;
            // Without a name it keeps its own.
            Some(errors.into_iter().filter(|error| !unnamed || error.field != "name").collect())
        }
        "CreateChannel" => channels::read(&read::<v1::CreateChannelRequest>(input)?.channel?).err(),
        "CreateCalendar" => calendar(read::<v1::CreateCalendarRequest>(input)?.calendar),
        "UpdateCalendar" => {
            let v1::UpdateCalendarRequest { name, calendar: written } = read(input)?;
            calendar(written.map(|written| v1::Calendar { name, ..written }))
        }
        "CreateCheckIn" => check_in(read::<v1::CreateCheckInRequest>(input)?.check_in),
        "UpdateCheckIn" => {
            let v1::UpdateCheckInRequest { name, check_in: written } = read(input)?;
            check_in(written.map(|written| v1::CheckIn { name, ..written }))
        }
        "CreateToken" => WrittenToken::read(read(input)?).err(),
        _ => None,
    }
}

/// An input as the gateway made it; none is no input of that method, which can't be.
fn read<M: Message + Default>(input: &[u8]) -> Option<M> {
    M::decode(input).ok()
}

/// Whether a field of a request to `rpc` may be wrong only because others could not be read.
fn follows(rpc: &str, field: &str, unread: &[String]) -> bool {
    let of_check_in = rpc.ends_with("CheckIn") || field.starts_with("checkIns[");
    let in_check_ins = if of_check_in { &DEPENDENT_IN_CHECK_INS[..] } else { &[] };
    let dependent = || DEPENDENT.iter().chain(in_check_ins);
    unread.iter().any(|unread| {
        // Itself, a part of it, or a neighbour that it is compared with, as backoff is with backoffMax.
        let part = unread.starts_with(field);
        let within = field.strip_prefix(unread.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']));
        part || within || dependent().any(|(dependent, on)| depends(field, dependent, unread, on))
    })
}

/// Whether `field` is the `dependent` one of a definition in which `unread` is, or is within, the field `on` which it depends.
fn depends(field: &str, dependent: &str, unread: &str, on: &str) -> bool {
    let (place, field) = split(field);
    let (other, unread) = split(unread);
    place == other && field.starts_with(dependent) && unread.starts_with(on)
}

/// The place of a definition in a set, such as `jobs[3].`, and the field in it.
fn split(field: &str) -> (&str, &str) {
    let end = ["jobs[", "channels[", "calendars[", "checkIns["]
        .into_iter()
        .find_map(|list| field.starts_with(list).then(|| field.find("]."))?);
    field.split_at(end.map_or(0, |end| end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(fields: &[&str]) -> Unread {
        let errors = fields.iter().map(|field| FieldError::new(*field, "unread")).collect();
        Unread { errors, ..Unread::default() }
    }

    fn judged(rpc: &str, input: &impl Message, fields: &[&str]) -> Vec<String> {
        judge(rpc, &input.encode_to_vec(), unread(fields)).into_iter().map(|error| error.field).collect()
    }

    fn job(name: &str, schedule: &str) -> v1::Job {
        let run = v1::Run { kind: Some(v1::run::Kind::Exec(v1::Exec::default())) };
        let (name, schedule) = (name.to_owned(), schedule.to_owned());
        v1::Job { name, schedule, run: Some(run), ..v1::Job::default() }
    }

    #[test]
    fn what_is_wrong_with_the_rest_is_said_beside_what_could_not_be_read() {
        let create = v1::CreateJobRequest { job: Some(job("A", "61 * * * *")) };
        let of = |fields| judged("CreateJob", &create, fields);
        assert_eq!(of(&["maxRuntime"]), ["maxRuntime", "schedule", "name", "run.exec.argv"]);
        assert_eq!(of(&["name", "run.exec.argv[1]"]), ["name", "run.exec.argv[1]", "schedule"]);
        assert_eq!(of(&["run"]), ["run", "schedule", "name"]);
        assert_eq!(of(&["run.exec.shell", "schedule"]), ["run.exec.shell", "schedule", "name"]);
    }

    #[test]
    fn a_set_is_judged_with_the_place_of_each() {
        let jobs = vec![job("a", "@daily"), job("b", "61 * * * *"), job("c", "@daily")];
        let set = v1::ApplyRequest { jobs, ..v1::ApplyRequest::default() };
        let found = judged("Apply", &set, &["jobs[0].run.exec.shell", "jobs[2].jitter"]);
        let expected = [
            "jobs[0].run.exec.shell",
            "jobs[2].jitter",
            "jobs[1].schedule",
            "jobs[1].run.exec.argv",
            "jobs[2].run.exec.argv",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_compared_with_something_unread_is_not_judged() {
        let check_in = Some(v1::CheckIn { name: "a".to_owned(), ..v1::CheckIn::default() });
        assert_eq!(judged("CreateCheckIn", &v1::CreateCheckInRequest { check_in }, &["period"]), ["period"]);
        let channel = Some(v1::Channel { name: "A".to_owned(), ..v1::Channel::default() });
        let found = judged("CreateChannel", &v1::CreateChannelRequest { channel }, &["slack"]);
        assert_eq!(found, ["slack", "name"]);
        let over = prost_types::Duration { seconds: 7_200, nanos: 0 };
        let on = v1::AlertOn { runtime_over: Some(over), ..v1::AlertOn::default() };
        let alert = Some(v1::JobAlert { on: Some(on), ..v1::JobAlert::default() });
        let job = Some(v1::Job { alert, ..job("a", "@daily") });
        let found = judged("CreateJob", &v1::CreateJobRequest { job }, &["maxRuntime", "run"]);
        assert_eq!(found, ["maxRuntime", "run"]);
    }

    #[test]
    fn a_check_in_is_not_told_to_leave_out_its_timezone_because_its_schedule_could_not_be_read() {
        let period = Some(prost_types::Duration { seconds: 60, nanos: 0 });
        let (name, timezone) = ("a".to_owned(), "UTC".to_owned());
        let check_in = v1::CheckIn { name, timezone, period, ..v1::CheckIn::default() };
        let create = v1::CreateCheckInRequest { check_in: Some(check_in.clone()) };
        assert_eq!(judged("CreateCheckIn", &create, &["schedule"]), ["schedule"]);
        assert_eq!(judged("CreateCheckIn", &create, &["grace"]), ["grace", "timezone"]);
        let elsewhere = v1::Job { timezone: "Nowhere".to_owned(), ..job("a", "") };
        let create = v1::CreateJobRequest { job: Some(elsewhere.clone()) };
        assert_eq!(judged("CreateJob", &create, &["schedule", "run"]), ["schedule", "run", "timezone"]);
        let (jobs, check_ins) = (vec![elsewhere], vec![check_in]);
        let set = v1::ApplyRequest { jobs, check_ins, ..v1::ApplyRequest::default() };
        let unread = ["jobs[0].schedule", "jobs[0].run", "checkIns[0].schedule"];
        assert_eq!(judged("Apply", &set, &unread)[3..], ["jobs[0].timezone"]);
    }

    #[test]
    fn what_a_misspelt_field_means_is_not_said_to_be_missing() {
        let create = v1::CreateJobRequest { job: Some(job("A", "")) }.encode_to_vec();
        let meant = |meant: &str| Unread { meant: vec![meant.to_owned()], ..unread(&["misspelt"]) };
        let of = |unread| judge("CreateJob", &create, unread).into_iter().map(|error| error.field);
        assert!(of(unread(&["misspelt"])).eq(["misspelt", "schedule", "name", "run.exec.argv"]));
        assert!(of(meant("schedule")).eq(["misspelt", "name", "run.exec.argv"]));
        assert!(of(meant("run.exec.argv")).eq(["misspelt", "schedule", "name"]));
    }

    #[test]
    fn where_some_were_only_counted_nothing_else_is_judged() {
        let create = v1::CreateJobRequest { job: Some(job("A", "")) };
        let fields = Unread { more: 7, ..unread(&["priority"; 50]) };
        let told = judge("CreateJob", &create.encode_to_vec(), fields);
        assert_eq!((told.len(), told[49].field.as_str()), (51, "priority"));
        assert!(told[50].message.starts_with("7 more fields are wrong"), "{:?}", told[50]);
    }

    #[test]
    fn a_method_that_writes_no_definition_says_what_could_not_be_read() {
        assert_eq!(judged("ListJobs", &v1::ListJobsRequest::default(), &["pageSize"]), ["pageSize"]);
        assert_eq!(judge("CreateJob", b"\xff\xff", unread(&["name"])), unread(&["name"]).errors);
    }
}
