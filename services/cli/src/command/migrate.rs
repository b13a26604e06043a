//! `escapement migrate`.

use crate::arguments::{Database, Output};
use crate::table::{self, say};
use anyhow::Context;
use serde_json::{Value, json};

pub async fn run(database: &Database, output: Output) -> anyhow::Result<()> {
    let applied = store::migrate(&settings(database)).await.context("migrating")?;
    if output == Output::Json {
        let steps: Vec<Value> = applied.iter().map(|step| json!({ "name": step })).collect();
        table::print_json(
            &json!({ "cell": database.cell, "version": store::SCHEMA_VERSION, "applied": steps }),
        );
        return Ok(());
    }
    if applied.is_empty() {
        say!("the schema of cell {} is at version {}: nothing to do", database.cell, store::SCHEMA_VERSION);
    }
    for step in applied {
        say!("applied {step}");
    }
    Ok(())
}

/// The settings of a command that goes to the database itself.
pub fn settings(database: &Database) -> store::Settings {
    let mut settings = store::Settings::new(&database.database_url, &database.cell, "escapement");
    settings.connections_max = 1;
    settings
}
