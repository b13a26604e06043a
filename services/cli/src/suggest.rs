//! Did you mean: names that are near to one that is not there.
//!
//! Invariant: an answer is late by no more than [`LIMIT`] because of it, and stands without it.

use crate::client::{Client, encode};
use crate::hint::collection;
use serde_json::Value;
use std::time::Duration;

/// How long is looked for near names.
const LIMIT: Duration = Duration::from_secs(2);
/// Names that are looked at, of those that begin alike and of all.
const NAMES_MAX: usize = 1000;
/// Names that are offered at most.
const OFFERED_MAX: usize = 3;

/// What was not found, and how it is listed.
#[derive(Debug, PartialEq, Eq)]
struct Missing {
    name: String,
    collection: &'static str,
    field: &'static str,
    listed: &'static str,
}

/// A line for whoever named something at `path`, or in `body`, that is not there: what it may have been, or where to look.
pub async fn instead(client: &Client, path: &str, body: Option<&Value>) -> Option<String> {
    if collection(path) == "alerts" {
        // Their names are those of jobs: none is near to an id.
        return Some(
            "`escapement alerts list` lists their ids, with --all those of resolved ones".to_owned(),
        );
    }
    let missing = missing(path, body)?;
    let near = tokio::time::timeout(LIMIT, look_up(client, &missing)).await.unwrap_or_default();
    Some(match near.as_slice() {
        // It is there: what is not is one of its runs.
        [first, ..] if *first == missing.name => {
            format!("`escapement runs {first}` lists the runs that there are")
        }
        [] => format!("`escapement {}` lists what there is", missing.listed),
        near => format!("did you mean {}?", near.join(" or ")),
    })
}

async fn look_up(client: &Client, missing: &Missing) -> Vec<String> {
    let list = format!("/v1/{}?pageSize={NAMES_MAX}", missing.collection);
    if missing.collection == "jobs" {
        // There may be many: those come first that begin alike.
        let begin: String = missing.name.chars().take(1).collect();
        let alike = client.names(&format!("{list}&namePrefix={}", encode(&begin)), missing.field).await;
        let near = near(&missing.name, alike);
        if !near.is_empty() {
            return near;
        }
    }
    near(&missing.name, client.names(&list, missing.field).await)
}

fn missing(path: &str, body: Option<&Value>) -> Option<Missing> {
    let rest = path.strip_prefix("/v1/")?;
    let named = rest.split_once('/').map(|(_, rest)| rest.split(['/', '?', ':']).next().unwrap_or_default());
    let name = match named {
        Some(name) => decode(name)?,
        None => body?["job"].as_str()?.to_owned(),
    };
    let (collection, field, listed) = match collection(path) {
        "jobs" | "schedule" => ("jobs", "jobs", "get jobs"),
        "channels" => ("channels", "channels", "channels list"),
        "calendars" => ("calendars", "calendars", "get calendars"),
        "check-ins" => ("check-ins", "checkIns", "checkins list"),
        "tokens" => ("tokens", "tokens", "tokens list"),
        "tenants" => ("tenants", "tenants", "tenants list"),
        _ => return None,
    };
    Some(Missing { name, collection, field, listed })
}

/// What [`encode`] made of a text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('%') {
        bytes.extend(plain.bytes());
        bytes.push(u8::from_str_radix(after.get(..2)?, 16).ok()?);
        rest = after.get(2..)?;
    }
    bytes.extend(rest.bytes());
    String::from_utf8(bytes).ok()
}

/// Those of `names` that are near to `name`, the nearest first: a letter in three may differ, or an end may be missing.
pub fn near(name: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let most = (name.chars().count() / 3).max(1);
    let distance = |other: &String| match strsim::osa_distance(name, other) {
        far if far > most && name.chars().count() >= 3 && other.starts_with(name) => Some(most + 1),
        far => (far <= most).then_some(far),
    };
    let mut found: Vec<_> = names.into_iter().filter_map(|other| Some((distance(&other)?, other))).collect();
    found.sort();
    found.dedup();
    found.into_iter().take(OFFERED_MAX).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_are_near_by_their_letters_or_their_beginning() {
        let all = names(&["invoices", "invoices-eu", "backup", "mail", "bill-a", "bill-b"]);
        let near = |name| super::near(name, all.clone());
        assert_eq!(near("invoicse"), ["invoices"]);
        assert_eq!(near("invoice"), ["invoices", "invoices-eu"]);
        assert_eq!(near("bill-c"), ["bill-a", "bill-b"]);
        assert_eq!(near("nightly"), [""; 0]);
        assert_eq!(near("m"), [""; 0]);
        assert_eq!(near("mail"), ["mail"], "itself, when it is there");
    }

    #[test]
    fn what_is_missing_is_found_in_what_was_asked() {
        let of = |path: &str, body: Option<&Value>| {
            missing(path, body).map(|missing| (missing.name, missing.collection))
        };
        let job = |name: &str| Some((name.to_owned(), "jobs"));
        assert_eq!(of("/v1/jobs/a%20b:pause", None), job("a b"));
        assert_eq!(of("/v1/jobs/a/runs?pageSize=5", None), job("a"));
        assert_eq!(of("/v1/schedule:preview", Some(&json!({ "job": "a" }))), job("a"));
        assert_eq!(of("/v1/schedule:preview", Some(&json!({ "schedule": "@daily" }))), None);
        assert_eq!(of("/v1/status", None), None);
    }
}
