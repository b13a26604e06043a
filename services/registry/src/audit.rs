//! What the audit trail says of each change: which fields, before and after. Values that may be secrets are left out:
//! headers, environment, bodies and payloads of what runs, and what follows the path of an address; see [`channel`] for
//! channels.

pub mod calendar;
pub mod channel;
pub mod check_in;

use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId, instant_text, run_name};
use model::job::{Definition, Work};
use rpc::convert::job::Written;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use store::audit::Event;
use store::job::Stored;

/// Stands for a value that is left out.
const LEFT_OUT: &str = "…";

/// A job was stored.
pub fn job_created(name: &str, id: JobId, definition: &Definition) -> Event {
    let detail = json!({ "id": id, "generation": Generation::FIRST, "after": shown(definition) });
    Event { action: "job.create", object: format!("job/{name}"), detail }
}

/// A job's definition or name was changed.
pub fn job_changed(before: &Stored, after: &Written, generation: Generation) -> Event {
    let mut changed = changes(&before.definition, &after.definition);
    if before.name != after.name {
        changed.insert("name".to_owned(), json!({ "before": before.name, "after": after.name }));
    }
    let detail = json!({ "id": before.id, "generation": generation, "changed": changed });
    Event { action: "job.update", object: format!("job/{}", before.name), detail }
}

/// A job was deleted.
pub fn job_deleted(job: &Stored) -> Event {
    let detail =
        json!({ "id": job.id, "generation": job.generation.next(), "before": shown(&job.definition) });
    Event { action: "job.delete", object: format!("job/{}", job.name), detail }
}

/// A job was paused.
pub fn job_paused(job: &Stored, reason: &str) -> Event {
    let detail = json!({ "id": job.id, "generation": job.generation.next(), "reason": reason });
    Event { action: "job.pause", object: format!("job/{}", job.name), detail }
}

/// A job was resumed; so many runs that waited were cancelled.
pub fn job_resumed(job: &Stored, catch_up: bool, cancelled: usize) -> Event {
    let generation = job.generation.next();
    let detail =
        json!({ "id": job.id, "generation": generation, "catchUp": catch_up, "cancelled": cancelled });
    Event { action: "job.resume", object: format!("job/{}", job.name), detail }
}

/// A job was run by hand, at this instant.
pub fn job_triggered(job: &Stored, scheduled_for: DateTime<Utc>) -> Event {
    let detail = json!({ "id": job.id, "scheduledFor": instant_text(scheduled_for) });
    Event { action: "job.trigger", object: format!("job/{}", job.name), detail }
}

/// So many past runs of a range were added.
pub fn job_backfilled(job: &Stored, from: DateTime<Utc>, to: DateTime<Utc>, added: usize) -> Event {
    let (from, to) = (instant_text(from), instant_text(to));
    let detail = json!({ "id": job.id, "from": from, "to": to, "added": added });
    Event { action: "job.backfill", object: format!("job/{}", job.name), detail }
}

/// A run was cancelled, or run again.
pub fn run(action: &'static str, job: &Stored, scheduled_for: DateTime<Utc>) -> Event {
    let object = format!("run/{}", run_name(&job.name, scheduled_for));
    Event { action, object, detail: json!({ "id": job.id }) }
}

/// Somebody looked after an alert.
pub fn alert(action: &'static str, id: uuid::Uuid, reason: &str) -> Event {
    Event { action, object: format!("alert/{id}"), detail: json!({ "reason": reason }) }
}

/// The top-level fields that differ, also when they differ only in what is left out.
fn changes(before: &Definition, after: &Definition) -> Map<String, Value> {
    let (was, is) = (plain(before), plain(after));
    told(&shown(before), &shown(after), |field| was.get(field) != is.get(field))
}

/// Those fields of either that `differ`, as they were and as they are; none where there is no such field.
fn told(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    differ: impl Fn(&str) -> bool,
) -> Map<String, Value> {
    let fields: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = fields.into_iter().filter(|field| differ(field));
    let value = |field: &String| json!({ "before": before.get(field), "after": after.get(field) });
    differing.map(|field| (field.clone(), value(field))).collect()
}

fn shown(definition: &Definition) -> Map<String, Value> {
    let mut definition = definition.clone();
    match &mut definition.run {
        Work::Exec(exec) => exec.env.values_mut().for_each(leave_out),
        Work::Http(http) => {
            http.headers.values_mut().for_each(leave_out);
            leave_out(&mut http.body);
            leave_out_query(&mut http.url);
        }
        Work::Handler(handler) => leave_out(&mut handler.payload),
    }
    plain(&definition)
}

fn leave_out(value: &mut String) {
    if !value.is_empty() {
        LEFT_OUT.clone_into(value);
    }
}

/// Of an address its scheme, host and path: queries are often secrets.
fn leave_out_query(url: &mut String) {
    if let Some(end) = url.find(['?', '#']) {
        url.truncate(end);
        url.push_str(LEFT_OUT);
    }
}

fn plain(definition: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(definition) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(), // a definition serialises to an object: model's tests say so
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpc::v1;

    fn definition(authorization: &str, url: &str) -> Definition {
        let http = v1::Http {
            url: url.to_owned(),
            headers: [("authorization".to_owned(), authorization.to_owned())].into(),
            ..v1::Http::default()
        };
        let job = v1::Job {
            name: "a".to_owned(),
            schedule: "* * * * *".to_owned(),
            run: Some(v1::Run { kind: Some(v1::run::Kind::Http(http)) }),
            ..v1::Job::default()
        };
        crate::definition::read(&job).written.definition
    }

    #[test]
    fn a_changed_secret_shows_that_it_changed_and_not_to_what() {
        let changed = changes(&definition("old-s3cret", "http://a/"), &definition("new-s3cret", "http://a/"));
        assert_eq!(changed.keys().collect::<Vec<_>>(), ["run"]);
        let text = Value::Object(changed).to_string();
        assert!(!text.contains("s3cret"), "{text}");
    }

    #[test]
    fn a_change_shows_only_what_differs() {
        let changed = changes(&definition("x", "http://a/"), &definition("x", "http://b/"));
        assert_eq!(changed["run"]["after"]["http"]["url"], "http://b/");
        assert_eq!(changed.len(), 1);
    }

    #[test]
    fn of_an_address_the_query_is_left_out_and_that_it_changed_is_told() {
        let changed = changes(
            &definition("x", "http://a/run?key=old-s3cret"),
            &definition("x", "http://a/run?key=s3cret"),
        );
        let url = &changed["run"]["after"]["http"]["url"];
        assert_eq!(url, "http://a/run…");
        assert!(!Value::Object(changed).to_string().contains("s3cret"));
    }

    #[test]
    fn a_field_that_is_gone_is_told() {
        let plain = definition("x", "http://a/");
        let before = Definition { starts_at: Some(DateTime::UNIX_EPOCH), ..plain.clone() };
        assert_eq!(changes(&before, &plain)["starts_at"]["after"], Value::Null);
    }
}
