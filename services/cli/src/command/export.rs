//! `escapement export [jobs|channels|calendars|checkins]…`: all of them as documents for `apply`.

use crate::arguments::{Defined, Export, Output};
use crate::client::{Client, encode};
use crate::document::Writer;
use crate::table::{self, say};
use anyhow::bail;
use serde_json::{Map, Value};

/// In the order in which they name each other.
const ORDER: [(Defined, &str); 4] = [
    (Defined::Channels, "Channel"),
    (Defined::Calendars, "Calendar"),
    (Defined::CheckIns, "CheckIn"),
    (Defined::Jobs, "Job"),
];

pub async fn run(client: &Client, export: &Export, output: Output) -> anyhow::Result<()> {
    let writer = Writer::new()?;
    let mut documents = Vec::new();
    let mut set = Map::new();
    let mut unreadable = Vec::new();
    for (kind, name) in ORDER.into_iter().filter(|(kind, _)| wanted(export, *kind)) {
        let mut items = client.list(&path(export, kind), kind.collection()).await?;
        items.retain(|item| {
            let sound = table::text(&item["broken"]) == "-";
            if !sound {
                unreadable.push(table::text(&item["name"]));
            }
            sound
        });
        match output {
            Output::Table => {
                for item in &items {
                    documents.push(writer.document(name, item)?);
                }
            }
            Output::Json => {
                let fields = items.iter().map(|item| writer.fields(name, item)).collect();
                set.insert(kind.collection().to_owned(), Value::Array(fields));
            }
        }
    }
    match output {
        Output::Table => say!("{}", documents.join("---\n").trim_end()),
        Output::Json => table::print_json(&Value::Object(set)),
    }
    if !unreadable.is_empty() {
        bail!(
            "jobs whose stored definition can't be read are left out: {}\n  see `escapement get jobs` and apply them anew",
            unreadable.join(", ")
        );
    }
    Ok(())
}

fn wanted(export: &Export, kind: Defined) -> bool {
    let only_jobs = !export.selector.is_empty();
    if export.kinds.is_empty() { !only_jobs || kind == Defined::Jobs } else { export.kinds.contains(&kind) }
}

fn path(export: &Export, kind: Defined) -> String {
    let labels: Vec<_> = export.selector.iter().map(|label| format!("labels={}", encode(label))).collect();
    match kind {
        Defined::Jobs => format!("/v1/jobs?{}", labels.join("&")),
        Defined::CheckIns => "/v1/check-ins".to_owned(),
        _ => format!("/v1/{}", kind.collection()),
    }
}
