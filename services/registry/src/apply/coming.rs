//! What a set would do to the coming runs, for whoever looks before applying it.

use super::write::Step;
use crate::failure::Failure;
use crate::turns::Turn;
use chrono::{DateTime, Utc};
use model::job::Definition;
use rpc::convert::time;
use rpc::v1;
use rpc::v1::coming_change::Kind;
use schedule::{Change, Coming, DateSets, Load, Schedule};

/// Jobs that are told one by one.
const JOBS_MAX: usize = 100;
/// Changes that are told of each.
const CHANGES_MAX: usize = 20;
/// Runs that are counted for the busiest second, of all jobs together: a second's work.
const RUNS_MAX: usize = 500_000;

/// What `steps`, put in force at `at`, mean to the coming runs.
///
/// # Errors
/// [`Failure::Broken`] when looking broke off.
pub async fn of(
    turn: Turn,
    steps: Vec<Step>,
    dates: DateSets,
    at: DateTime<Utc>,
) -> Result<v1::Coming, Failure> {
    // Ten thousand jobs that are due each second take a while. The turn is held by the work itself, which goes on when
    // the caller has gone.
    let looking = tokio::task::spawn_blocking(move || {
        let coming = look(&steps, &dates, at);
        drop(turn);
        coming
    });
    looking.await.map_err(|_| Failure::Broken("looking at the coming runs"))
}

fn look(steps: &[Step], dates: &DateSets, at: DateTime<Utc>) -> v1::Coming {
    let (mut before_load, mut after_load) = (Counted::default(), Counted::default());
    let mut jobs: Vec<(usize, v1::ComingJob)> = Vec::new();
    for step in steps.iter().filter(|step| !step.paused) {
        let read = |definition: &Option<Definition>| {
            let definition = definition.as_ref()?;
            Schedule::of_job(definition, step.owner, dates).ok()
        };
        let (before, after) = (read(&step.before), read(&step.after));
        before_load.add(step, step.before.as_ref(), before.as_ref(), at);
        after_load.add(step, step.after.as_ref(), after.as_ref(), at);
        if step.before == step.after {
            continue;
        }
        let coming = schedule::coming(before.as_ref(), after.as_ref(), at);
        if !coming.changes.is_empty() || coming.cut {
            let count = coming.changes.len();
            jobs.push((count, job(&step.name, &coming, before.as_ref(), after.as_ref())));
        }
    }
    jobs.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.name.cmp(&b.name)));
    let more = jobs.len().saturating_sub(JOBS_MAX);
    jobs.truncate(JOBS_MAX);
    v1::Coming {
        from: Some(time::timestamp(at)),
        to: Some(time::timestamp(at + schedule::COMING_AHEAD)),
        cut: before_load.cut || after_load.cut || jobs.iter().any(|(_, job)| job.cut),
        jobs: jobs.into_iter().map(|(_, job)| job).collect(),
        more_jobs: i32::try_from(more).unwrap_or(i32::MAX),
        peak_before: before_load.peak(),
        peak_after: after_load.peak(),
    }
}

/// Runs to come, counted up to a limit.
#[derive(Default)]
struct Counted {
    load: Load,
    runs: usize,
    cut: bool,
}

impl Counted {
    fn add(
        &mut self,
        step: &Step,
        definition: Option<&Definition>,
        schedule: Option<&Schedule>,
        at: DateTime<Utc>,
    ) {
        let (Some(definition), Some(schedule)) = (definition, schedule) else { return };
        let seed = step.owner.job.to_string();
        let job = schedule::Definition::of(definition, schedule, &seed);
        let (added, more) = self.load.add(&job, at, RUNS_MAX - self.runs);
        self.runs += added;
        self.cut |= more;
    }

    fn peak(&self) -> Option<v1::Peak> {
        let (second, runs) = self.load.peak()?;
        Some(v1::Peak { runs: i32::try_from(runs).unwrap_or(i32::MAX), time: Some(time::timestamp(second)) })
    }
}

fn job(name: &str, coming: &Coming, before: Option<&Schedule>, after: Option<&Schedule>) -> v1::ComingJob {
    let count = |wanted: fn(&Change) -> bool| {
        i32::try_from(coming.changes.iter().filter(|change| wanted(change)).count()).unwrap_or(i32::MAX)
    };
    v1::ComingJob {
        name: name.to_owned(),
        added: count(|change| matches!(change, Change::Added(_))),
        removed: count(|change| matches!(change, Change::Removed(_))),
        moved: count(|change| matches!(change, Change::Moved { .. })),
        changes: coming.changes.iter().take(CHANGES_MAX).map(|one| change(one, before, after)).collect(),
        cut: coming.cut,
        clock_change: coming.clock_change.map(time::timestamp),
    }
}

fn change(change: &Change, before: Option<&Schedule>, after: Option<&Schedule>) -> v1::ComingChange {
    let (kind, was, named_by) = match change {
        Change::Added(_) => (Kind::Added, None, after),
        Change::Removed(_) => (Kind::Removed, None, before),
        Change::Moved { was, .. } => (Kind::Moved, Some(*was), after),
    };
    let at = change.at();
    let local = named_by.or(after).or(before).map(|schedule| schedule.local_time(at).to_rfc3339());
    v1::ComingChange {
        kind: kind.into(),
        time: Some(time::timestamp(at)),
        was: was.map(time::timestamp),
        local_time: local.unwrap_or_default(),
        rule: rule(change, named_by, before, after),
    }
}

/// Why it happens, or no longer does, when the expression alone does not say so.
fn rule(
    change: &Change,
    named_by: Option<&Schedule>,
    before: Option<&Schedule>,
    after: Option<&Schedule>,
) -> String {
    let noted = |schedule: Option<&Schedule>, at| {
        let notes = schedule.map(|schedule| schedule.notes(at)).unwrap_or_default();
        notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let here = noted(named_by, change.at());
    if !here.is_empty() {
        return here;
    }
    match change {
        Change::Moved { was, .. } => noted(before, *was),
        // What the other definition says of an instant that it drops.
        Change::Removed(at) => dropped(after, *at),
        Change::Added(at) => dropped(before, *at),
    }
}

fn dropped(schedule: Option<&Schedule>, at: DateTime<Utc>) -> String {
    let Some(schedule) = schedule else { return String::new() };
    let around = schedule.preview(at - chrono::TimeDelta::seconds(1), 1, schedule::Way::Forward);
    let entry = around.entries.into_iter().find(|entry| entry.at == at && entry.is_dropped());
    entry.and_then(|entry| entry.note()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ids::{JobId, TenantId};
    use schedule::Owner;

    fn definition(schedule: &str, timezone: &str) -> Definition {
        let handler = v1::Handler { name: "h".to_owned(), payload: String::new() };
        let job = v1::Job {
            name: "a".to_owned(),
            schedule: schedule.to_owned(),
            timezone: timezone.to_owned(),
            run: Some(v1::Run { kind: Some(v1::run::Kind::Handler(handler)) }),
            ..v1::Job::default()
        };
        crate::definition::read(&job).written.definition
    }

    fn step(before: Option<Definition>, after: Option<Definition>) -> Step {
        let job = JobId(uuid::Uuid::from_u128(7));
        let owner = Owner { tenant: TenantId::DEFAULT, job, created_at: DateTime::UNIX_EPOCH };
        Step { name: "a".to_owned(), owner, before, after, paused: false }
    }

    fn looked(step: Step, at: &str) -> v1::Coming {
        look(&[step], &DateSets::default(), at.parse().expect("an instant"))
    }

    #[test]
    fn a_rule_that_changes_says_so_at_the_next_clock_change() {
        let (mut before, after) =
            (definition("30 2 * * *", "Europe/Berlin"), definition("30 2 * * *", "Europe/Berlin"));
        before.dst_gap = model::policy::DstGap::Skip;
        let coming = looked(step(Some(before), Some(after)), "2027-01-10T00:00:00Z");
        let [job] = coming.jobs.as_slice() else { panic!("one job: {coming:?}") };
        assert_eq!((job.added, job.removed, job.moved), (1, 0, 0));
        let added = &job.changes[0];
        assert_eq!(added.local_time, "2027-03-28T03:00:00+02:00");
        assert!(added.rule.contains("do not exist"), "{added:?}");
    }

    #[test]
    fn the_busiest_second_is_told_before_and_after() {
        let steps: Vec<_> = (0..3).map(|_| step(Some(definition("0 9 * * *", "UTC")), None)).collect();
        let coming = look(&steps, &DateSets::default(), DateTime::UNIX_EPOCH);
        assert_eq!(coming.peak_before.map(|peak| peak.runs), Some(3));
        assert_eq!(coming.peak_after, None);
        assert_eq!(coming.jobs[0].removed, 1);
    }

    #[test]
    fn a_job_each_second_is_cut_and_says_so() {
        let coming = looked(step(None, Some(definition("* * * * * *", "UTC"))), "2027-01-10T00:00:00Z");
        assert!(coming.cut && coming.jobs[0].cut);
        assert_eq!((coming.jobs[0].added, coming.jobs[0].changes.len()), (2_000, CHANGES_MAX));
        assert_eq!(coming.peak_after.map(|peak| peak.runs), Some(1));
    }
}
