//! A migrated cell on a real PostgreSQL for each test, and connections to look at it from the side.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "shared by several test programs")]

use stack::testkit::{TestDatabase, shared_postgres};
use store::{Settings, Store};

/// One test's cell.
pub struct Cell {
    /// As a service sees it.
    pub store: Store,
    database: TestDatabase,
}

impl Cell {
    /// A fresh, migrated cell.
    pub async fn create() -> Self {
        let database = TestDatabase::create(shared_postgres().await, None).await.expect("a database");
        let settings = Settings::new(database.url(), "main", "test");
        store::migrate(&settings).await.expect("migrated");
        Self { store: Store::new(settings).expect("sound settings"), database }
    }

    /// The settings of a session like a service's.
    pub fn settings(&self) -> Settings {
        self.store.settings().clone()
    }

    /// A connection of its own, in the cell's schema, without a service's limits: the other party of a race.
    pub async fn connect(&self) -> tokio_postgres::Client {
        let (client, connection) =
            tokio_postgres::connect(self.database.url(), tokio_postgres::NoTls).await.expect("connected");
        tokio::spawn(connection);
        client
            .batch_execute("SET search_path = main; SET timezone = 'UTC'")
            .await
            .expect("in the cell's schema");
        client
    }
}
