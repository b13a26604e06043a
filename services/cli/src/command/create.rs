//! `escapement create -f FILE`: each document on its own; what exists is refused, and what was created before it stays.
//! What is wrong with the documents is told at once.

use crate::arguments::{Create, Output};
use crate::client::Client;
use crate::command::{apply, check_ins};
use crate::document::{Documents, Found};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::{self, say};
use crate::wrong::WrongField;
use serde_json::{Value, json};

/// Where documents of a kind stand, what they are created at and called; in this order: jobs name channels and calendars.
const KINDS: [(&str, &str, &str); 4] = [
    ("channels", "/v1/channels", "channel"),
    ("calendars", "/v1/calendars", "calendar"),
    ("checkIns", "/v1/check-ins", "check-in"),
    ("jobs", "/v1/jobs", "job"),
];

pub async fn run(client: &Client, create: &Create, output: Output) -> anyhow::Result<()> {
    let documents = Documents::of_files(&create.files)?;
    if !documents.is_sound() {
        return Err(documents.refused(wrong_beside(client, &documents).await).into());
    }
    let request = documents.request();
    let of_kind = |collection: &str| request[collection].as_array().map_or(0, Vec::len);
    let count = KINDS.iter().map(|(collection, ..)| of_kind(collection)).sum::<usize>();
    let progress = Progress::of(count as u64, "created".to_owned());
    let mut created = Vec::new();
    for (collection, path, kind) in KINDS {
        for (index, document) in request[collection].as_array().into_iter().flatten().enumerate() {
            let name = table::text(&document["name"]);
            let answer = match client.post(path, document).await {
                Ok(answer) => answer,
                Err(error) => {
                    let error = error.context(format!("{kind} {name}"));
                    drop(progress); // another one is shown meanwhile
                    return Err(with_all(client, &documents, &format!("{collection}[{index}]"), error).await);
                }
            };
            if output == Output::Table {
                progress.aside(|| {
                    say!("{kind} {name} created");
                    // Its token is in no later answer.
                    if kind == "check-in" {
                        check_ins::print_one(client, &answer);
                    }
                });
            }
            created.push(answer);
            progress.reach(created.len() as u64);
        }
    }
    drop(progress);
    if output == Output::Json {
        let answer = match created.as_slice() {
            [one] => one.clone(),
            _ => json!({ "created": Value::Array(created) }),
        };
        table::print_json(&answer);
    }
    Ok(())
}

/// Why the document at `place` was refused; when its fields are wrong, with those of all others, each where it stood.
async fn with_all(
    client: &Client,
    documents: &Documents,
    place: &str,
    error: anyhow::Error,
) -> anyhow::Error {
    let (own, mut next) = match error.downcast_ref() {
        Some(Failure::Refused { status: 400, wrong, next, .. }) if !wrong.is_empty() => {
            (wrong.clone(), next.clone())
        }
        _ => return error,
    };
    let found = wrong_beside(client, documents).await;
    next.extend(found.next);
    documents.refused(Found { wrong: merged(place, own, found.wrong), next }).into()
}

/// What the registry finds wrong with the documents; of what it says of a set nothing, since they are not created as one.
async fn wrong_beside(client: &Client, documents: &Documents) -> Found {
    let mut found = apply::wrong_beside(client, documents).await;
    found.wrong.retain(is_of_documents);
    found
}

/// Whether that is wrong with a document, or says how much more is.
fn is_of_documents(wrong: &WrongField) -> bool {
    let collection = wrong.field.split_once('[').map(|(collection, _)| collection);
    wrong.field.is_empty() || KINDS.iter().any(|(of_kind, ..)| collection == Some(*of_kind))
}

/// What is wrong with the one document at `place` by itself, then what was found in all of them; each field as it is named
/// in a set, and once.
fn merged(place: &str, own: Vec<WrongField>, found: Vec<WrongField>) -> Vec<WrongField> {
    let in_set = |WrongField { field, message }| match field.as_str() {
        "" => WrongField { field: place.to_owned(), message },
        field => WrongField { field: format!("{place}.{field}"), message },
    };
    let mut all: Vec<_> = own.into_iter().map(in_set).collect();
    let further: Vec<_> =
        found.into_iter().filter(|one| all.iter().all(|own| own.field != one.field)).collect();
    all.extend(further);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(field: &str, message: &str) -> WrongField {
        WrongField { field: field.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn why_a_document_was_refused_stays_beside_what_is_wrong_with_others() {
        let own = vec![wrong("schedule", "own"), wrong("", "own")];
        let found = vec![wrong("jobs[0].name", "found"), wrong("jobs[1].schedule", "found")];
        let expected =
            [wrong("jobs[1].schedule", "own"), wrong("jobs[1]", "own"), wrong("jobs[0].name", "found")];
        assert_eq!(merged("jobs[1]", own, found), expected);
    }

    #[test]
    fn what_is_wrong_with_a_set_is_not_said_of_documents_that_are_created_one_by_one() {
        for field in ["jobs[0].schedule", "checkIns[12]", ""] {
            assert!(is_of_documents(&wrong(field, "x")), "{field}");
        }
        for field in ["jobs", "channels", "prune.labels[0]"] {
            assert!(!is_of_documents(&wrong(field, "x")), "{field}");
        }
    }
}
