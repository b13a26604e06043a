//! Forward migrations of one cell's schema, one process at a time.

use crate::connect::Settings;
use crate::error::StoreError;
use deadpool_postgres::PoolError;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// The version that this release's statements need.
pub const SCHEMA_VERSION: i32 = 22;

/// Held while migrating: two runners at once would both apply the same step, and one would die.
const MIGRATION_LOCK: i64 = 0x6573_6361_7065;

/// Brings the cell's schema to this release's version, creating the schema when it is missing. Returns the names
/// of the steps that were applied; none when there was nothing to do.
///
/// # Errors
/// [`StoreError::Migrate`] when a step fails: the ones before it stay applied, it does not.
pub async fn migrate(settings: &Settings) -> Result<Vec<String>, StoreError> {
    let mut settings = settings.clone();
    settings.statement_timeout = std::time::Duration::ZERO; // zero is none: a step may take its time
    settings.lock_timeout = std::time::Duration::ZERO;
    settings.idle_in_transaction_timeout = std::time::Duration::ZERO;
    let (config, tls) = settings.driver()?;
    let connected = config.connect(tls).await;
    let (mut client, connection) =
        connected.map_err(|error| StoreError::connecting("migrate", PoolError::Backend(error)))?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the migration's connection ended");
        }
    });
    let at = StoreError::at("prepare the schema");
    client.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await.map_err(&at)?;
    // The name was checked by `driver`; a schema's name can't be a parameter.
    client.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {}", settings.cell)).await.map_err(&at)?;
    let report = embedded::migrations::runner()
        .run_async(&mut client)
        .await
        .map_err(|source| StoreError::Migrate { cell: settings.cell.clone(), source: Box::new(source) })?;
    client.execute("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await.map_err(&at)?;
    drop(client);
    driver.abort();
    Ok(report.applied_migrations().iter().map(ToString::to_string).collect())
}
