//! Whether the database answers, for `/readyz`: a registry that can't reach it should get no requests.

use service::health::Condition;
use std::time::Duration;
use store::{Store, clock};
use tokio_util::sync::CancellationToken;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Looks once.
async fn run_once(store: &Store, database: &Condition) {
    match clock::now(store).await {
        Ok(_) => database.met(),
        Err(error) => database.unmet(service::runtime::chain(&error)),
    }
}

/// Looks each second until `stop`.
pub async fn run(store: Store, database: Condition, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        run_once(&store, &database).await;
    }
}
