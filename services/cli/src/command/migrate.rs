//! `escapement migrate`.

use crate::arguments::Database;
use crate::table::say;
use anyhow::Context;

pub async fn run(database: &Database) -> anyhow::Result<()> {
    let applied = store::migrate(&settings(database)).await.context("migrating")?;
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
