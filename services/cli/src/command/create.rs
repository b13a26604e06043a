//! `escapement create -f FILE`: each document on its own; what exists is refused, and what was created before it stays.
//! What is wrong with the documents is told at once.

use crate::arguments::{Create, Output};
use crate::client::Client;
use crate::command::{apply, check_ins};
use crate::document::Documents;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::{self, say};
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
        return Err(documents.refused(apply::wrong_beside(client, &documents).await).into());
    }
    let request = documents.request();
    let of_kind = |collection: &str| request[collection].as_array().map_or(0, Vec::len);
    let count = KINDS.iter().map(|(collection, ..)| of_kind(collection)).sum::<usize>();
    let progress = Progress::of(count as u64, "created".to_owned());
    let mut created = Vec::new();
    for (collection, path, kind) in KINDS {
        for document in request[collection].as_array().into_iter().flatten() {
            let name = table::text(&document["name"]);
            let answer = match client.post(path, document).await {
                Ok(answer) => answer,
                Err(error) => {
                    let error = error.context(format!("{kind} {name}"));
                    return Err(with_all(client, &documents, error).await);
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

/// Why a document was refused; when its fields are wrong, with those of all others, each where it stood.
async fn with_all(client: &Client, documents: &Documents, error: anyhow::Error) -> anyhow::Error {
    let refused = error.downcast_ref::<Failure>();
    if !refused.is_some_and(|refused| matches!(refused, Failure::Refused { status: 400, .. })) {
        return error;
    }
    let wrong = apply::wrong_beside(client, documents).await;
    if wrong.is_empty() { error } else { documents.refused(wrong).into() }
}
