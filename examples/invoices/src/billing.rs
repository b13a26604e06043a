//! The billing system: a database of its own, which knows nothing of Escapement but the guard.
//!
//! Invariant: with a [`Guard`] every transaction holds it first, the reading ones too: what a newer attempt reads is
//! then all that older ones will ever have written.

use fence::{FencingToken, GuardKey};
use std::collections::BTreeSet;
use tokio_postgres::{Client, NoTls, Transaction};

/// Who writes, for the guard.
#[derive(Debug, Clone)]
pub struct Guard {
    pub key: GuardKey,
    pub token: FencingToken,
}

/// What goes wrong with billing.
#[derive(Debug, thiserror::Error)]
pub enum BillingError {
    /// The guard has seen a newer attempt: this one was given up for dead, and must stop.
    #[error("refused: a newer attempt has written under {key} than the one of token {token}")]
    Stale { key: GuardKey, token: FencingToken },
    /// The database failed.
    #[error("{operation} failed")]
    Database {
        operation: &'static str,
        #[source]
        source: tokio_postgres::Error,
    },
}

fn at(operation: &'static str) -> impl Fn(tokio_postgres::Error) -> BillingError {
    move |source| BillingError::Database { operation, source }
}

/// How many invoices one customer got for one occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    pub occurrence: String,
    pub customer: String,
    pub invoices: i64,
}

/// A connection to the billing database.
pub struct Billing {
    client: Client,
}

impl Billing {
    /// Connects.
    pub async fn connect(url: &str) -> Result<Self, BillingError> {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.map_err(at("connecting to the billing database"))?;
        // It ends with the client, and its errors are those of the client's statements.
        tokio::spawn(connection);
        // Who freezes inside a transaction must not keep the guard from the next attempt.
        let limit = "SET idle_in_transaction_session_timeout = '2s'";
        client.batch_execute(limit).await.map_err(at("limiting idle transactions"))?;
        Ok(Self { client })
    }

    /// Makes its tables.
    pub async fn prepare(&self) -> Result<(), BillingError> {
        for schema in [include_str!("../sql/schema.sql"), fence::postgres::SCHEMA] {
            self.client.batch_execute(schema).await.map_err(at("making the billing tables"))?;
        }
        Ok(())
    }

    /// Sends an invoice.
    pub async fn send(
        &mut self,
        guard: Option<&Guard>,
        occurrence: &str,
        customer: &str,
        sent_by: &str,
    ) -> Result<(), BillingError> {
        let failed = at("sending an invoice");
        let transaction = self.client.transaction().await.map_err(&failed)?;
        hold(&transaction, guard).await?;
        let statement = include_str!("../sql/send.sql");
        transaction.execute(statement, &[&occurrence, &customer, &sent_by]).await.map_err(&failed)?;
        transaction.commit().await.map_err(failed)
    }

    /// Customers who got theirs for the occurrence so far.
    pub async fn sent(
        &mut self,
        guard: Option<&Guard>,
        occurrence: &str,
    ) -> Result<BTreeSet<String>, BillingError> {
        let failed = at("reading what was sent");
        let transaction = self.client.transaction().await.map_err(&failed)?;
        hold(&transaction, guard).await?;
        let rows =
            transaction.query(include_str!("../sql/sent.sql"), &[&occurrence]).await.map_err(&failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// How many each customer got for each of the occurrences; who got none is left out.
    pub async fn count(&self, occurrences: &[String]) -> Result<Vec<Count>, BillingError> {
        let rows = self.client.query(include_str!("../sql/count.sql"), &[&occurrences]).await;
        let rows = rows.map_err(at("counting invoices"))?;
        let count = |row: &tokio_postgres::Row| Count {
            occurrence: row.get(0),
            customer: row.get(1),
            invoices: row.get(2),
        };
        Ok(rows.iter().map(count).collect())
    }
}

/// The guard's statement: nothing else comes before it in a transaction.
async fn hold(transaction: &Transaction<'_>, guard: Option<&Guard>) -> Result<(), BillingError> {
    let Some(Guard { key, token }) = guard else { return Ok(()) };
    let held = transaction.query_one(fence::postgres::GUARD, &[&key.as_str(), &token.as_i64()]).await;
    match held {
        Ok(_) => Ok(()),
        Err(error) if error.code().is_some_and(|code| code.code() == fence::postgres::STALE_SQLSTATE) => {
            Err(BillingError::Stale { key: key.clone(), token: *token })
        }
        Err(error) => Err(at("asking the guard")(error)),
    }
}

/// The names of so many customers.
pub fn customers(count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("customer-{number}"))
}
