//! Connections: a pool whose sessions are in the cell's schema and can neither wait nor run for ever.

mod address;
pub mod tls;

use crate::error::StoreError;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tls::Tls;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Row, Statement, types::ToSql};

/// A statement whose client has gone away ends so soon: it may hold locks.
const GONE_CHECK: Duration = Duration::from_secs(1);

/// Two indexes together are read for a whole range each, where one of them finds the row; and to look at one page must seem
/// cheaper than to read even a small index.
const BY_INDEX_ONLY: &str = "-c enable_seqscan=off -c enable_bitmapscan=off -c random_page_cost=0.01";

/// How to reach the database and how long its sessions may take.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `postgres://user:password@host:port/database`, with libpq's `sslmode`, `sslrootcert`, `sslcert` and `sslkey`.
    pub url: String,
    /// The cell: the name of its schema.
    pub cell: String,
    /// Shown in `pg_stat_activity`.
    pub application: String,
    /// Connections at most.
    pub connections_max: usize,
    /// The longest wait for a free connection, or for a new one.
    pub connect_timeout: Duration,
    /// The longest statement.
    pub statement_timeout: Duration,
    /// The longest wait for a row lock.
    pub lock_timeout: Duration,
    /// The longest pause inside a transaction: a frozen process must not hold its locks.
    pub idle_in_transaction_timeout: Duration,
    /// Whether every statement finds its rows by an index. A plan is kept for as long as the statistics are, and one that
    /// was made while the queue was empty would read all of a herd for each row of it.
    pub by_index_only: bool,
}

impl Settings {
    /// Settings with the defaults that suit every service: 8 connections, 5 s to connect, 10 s a statement, 3 s a
    /// lock, 2 s idle in a transaction.
    pub fn new(url: impl Into<String>, cell: impl Into<String>, application: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            cell: cell.into(),
            application: application.into(),
            connections_max: 8,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(3),
            idle_in_transaction_timeout: Duration::from_secs(2),
            by_index_only: false,
        }
    }

    /// The driver's configuration with the session settings as start-up options, so that no round trip and no
    /// forgotten `SET` stands between a connection and its limits; and the TLS of its connections.
    pub(crate) fn driver(&self) -> Result<(tokio_postgres::Config, Tls), StoreError> {
        check_cell(&self.cell)?;
        let address::Address { driver: mut config, tls } = address::read(&self.url)?;
        warn_of_strangers(&config, &tls);
        let tls = Tls::new(tls)?;
        config.options(format!(
            "-c search_path={} -c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout={} \
             -c client_connection_check_interval={} -c timezone=UTC -c default_transaction_isolation=read\\ committed \
             -c jit=off {}",
            self.cell,
            self.statement_timeout.as_millis(),
            self.lock_timeout.as_millis(),
            self.idle_in_transaction_timeout.as_millis(),
            GONE_CHECK.as_millis(),
            if self.by_index_only { BY_INDEX_ONLY } else { "" },
        ));
        config.application_name(self.application.as_str());
        config.connect_timeout(self.connect_timeout);
        config.tcp_user_timeout(Duration::from_secs(10));
        config.keepalives_idle(Duration::from_secs(10));
        Ok((config, tls))
    }
}

/// Says so when whoever is on the way to PostgreSQL could pretend to be it.
fn warn_of_strangers(config: &tokio_postgres::Config, tls: &address::Wanted) {
    let away = |host: &&Host| match host {
        Host::Unix(_) => false,
        Host::Tcp(name) => {
            name != "localhost" && !name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    };
    let unchecked = config.get_ssl_mode() == SslMode::Disable || tls.check == address::Check::Nothing;
    if let Some(Host::Tcp(host)) = config.get_hosts().iter().find(away).filter(|_| unchecked) {
        tracing::warn!(
            postgres.host = host,
            "PostgreSQL is not asked who it is: add sslmode=verify-full to database_url, unless the network is trusted"
        );
    }
}

/// A cell's name becomes a schema's name and part of an etcd key.
fn check_cell(cell: &str) -> Result<(), StoreError> {
    let sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = cell.starts_with(|c: char| c.is_ascii_lowercase());
    if starts && cell.len() <= 48 && cell.chars().all(sound) {
        return Ok(());
    }
    Err(StoreError::Settings(format!("cell {cell:?}: use 1 to 48 of a-z, 0-9, '_', beginning with a letter")))
}

/// The database of one cell.
#[derive(Clone)]
pub struct Store {
    pool: Pool,
    settings: Settings,
}

impl Store {
    /// Prepares the pool; connects when first used.
    ///
    /// # Errors
    /// [`StoreError::Settings`] when the address, a file that it names or the cell's name can't be used.
    pub fn new(settings: Settings) -> Result<Self, StoreError> {
        let (config, tls) = settings.driver()?;
        let manager =
            Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let timeouts = Timeouts {
            wait: Some(settings.connect_timeout),
            create: Some(settings.connect_timeout),
            recycle: Some(settings.connect_timeout),
        };
        let pool = Pool::builder(manager)
            .max_size(settings.connections_max)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async move {
                    // A standby answers reads and would keep us waiting for writes: refuse it here.
                    let row = client
                        .query_one("SELECT pg_is_in_recovery()", &[])
                        .await
                        .map_err(HookError::Backend)?;
                    if row.get::<_, bool>(0) {
                        return Err(HookError::message("the server is a standby; connect to the primary"));
                    }
                    Ok(())
                })
            }))
            .build()
            .map_err(|error| StoreError::Settings(error.to_string()))?;
        Ok(Self { pool, settings })
    }

    /// A connection from the pool.
    ///
    /// # Errors
    /// [`StoreError::Connect`] when none is free and none can be made in time, [`StoreError::Tls`] when server and client
    /// don't trust each other.
    pub async fn client(&self, operation: &'static str) -> Result<Client, StoreError> {
        match self.pool.get().await {
            Ok(object) => Ok(Client { object: Some(object), state: State::default() }),
            Err(source) => Err(StoreError::connecting(operation, source)),
        }
    }

    /// The settings that it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Closes every connection; later calls fail.
    pub fn close(&self) {
        self.pool.close();
    }
}

/// A connection that returns to the pool when dropped; unless no later use of it would be good: a statement was refused
/// because the server is read-only (a primary that was demoted behind the same address), or a statement was given up
/// before its answer came, for which the next user would wait.
pub struct Client {
    object: Option<Object>,
    state: State,
}

/// What a connection has been through.
#[derive(Debug, Default)]
struct State {
    read_only: AtomicBool,
    /// Statements without an answer yet.
    under_way: AtomicUsize,
}

impl State {
    /// Waits for a statement's answer. Dropped before that, as by a limit on time, it stays under way.
    async fn answer<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let answer = answer.await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        answer.map_err(|source| {
            if source.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
                self.read_only.store(true, Ordering::Relaxed);
            }
            StoreError::Database { operation, source }
        })
    }

    fn is_good(&mut self) -> bool {
        !*self.read_only.get_mut() && *self.under_way.get_mut() == 0
    }
}

impl Client {
    /// Begins a transaction.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the connection is broken; it is then not given back to the pool.
    pub async fn begin(&mut self, operation: &'static str) -> Result<Transaction<'_>, StoreError> {
        let Self { object, state } = self;
        let object = object.as_mut().ok_or_else(closed)?;
        let inner = state.answer(operation, object.transaction()).await?;
        Ok(Transaction { inner, operation, state })
    }

    /// Runs one statement outside a transaction.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub async fn query(
        &self,
        operation: &'static str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let object = self.object.as_ref().ok_or_else(closed)?;
        let statement = self.state.answer(operation, object.prepare_cached(sql)).await?;
        self.state.answer(operation, object.query(&statement, params)).await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.state.is_good()
            && let Some(object) = self.object.take()
        {
            drop(Object::take(object));
        }
    }
}

fn closed() -> StoreError {
    StoreError::Settings("the connection was closed".to_owned())
}

/// A transaction; dropped without [`Transaction::commit`] it rolls back.
pub struct Transaction<'a> {
    inner: deadpool_postgres::Transaction<'a>,
    operation: &'static str,
    state: &'a State,
}

impl Transaction<'_> {
    /// Prepares a statement once for each connection.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub(crate) async fn prepare(&self, sql: &str) -> Result<Statement, StoreError> {
        self.state.answer(self.operation, self.inner.prepare_cached(sql)).await
    }

    /// Runs one statement and returns its rows.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub(crate) async fn query(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(sql).await?;
        self.query_prepared(&statement, params).await
    }

    /// Runs a prepared statement; several polled together are pipelined in the order in which they were made.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub(crate) async fn query_prepared(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.state.answer(self.operation, self.inner.query(statement, params)).await
    }

    /// Runs one statement and returns how many rows it wrote.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub(crate) async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, StoreError> {
        let statement = self.prepare(sql).await?;
        self.state.answer(self.operation, self.inner.execute(&statement, params)).await
    }

    /// Makes it durable. When this fails the outcome is unknown: look before writing again.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub async fn commit(self) -> Result<(), StoreError> {
        self.state.answer(self.operation, self.inner.commit()).await
    }
}
