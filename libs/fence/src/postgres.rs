//! The guard of a PostgreSQL database: a table, and one statement that comes first in the job's own transaction.
//!
//! Run [`SCHEMA`] once, in a migration. Then every transaction in which a job writes begins with [`GUARD`]:
//!
//! ```sql
//! BEGIN;
//! SELECT escapement_guard('0b7c3c1e-5d0a-4f7e-9a51-0f5b8f1f2a77', 17592186044418);
//! INSERT INTO invoice …;
//! COMMIT;
//! ```
//!
//! The statement locks the key's row until the transaction ends. So of two writers the second waits for the first:
//! it sees the other's token if that one committed, and nothing of it if that one rolled back. A lower token fails
//! with SQLSTATE [`STALE_SQLSTATE`], after which PostgreSQL refuses everything but a rollback, also from a
//! program that ignores errors.
//!
//! Two things are left to its user:
//! - The guard and what it guards are in one database and one transaction. In two, a write may arrive between.
//! - A machine that freezes *inside* the transaction holds the lock. Set `idle_in_transaction_session_timeout`
//!   (some seconds) for the job's role, so that the server ends that transaction and the next attempt can write.
//!   The same holds for a network that swallows packets: `tcp_user_timeout`.
//!
//! Under `READ COMMITTED`, the default, a refusal is [`STALE_SQLSTATE`]. Under `REPEATABLE READ` and `SERIALIZABLE` a
//! transaction that began before the newer writer committed fails with 40001 instead; tried again, it is refused.

/// The table `escapement_fence` and the function `escapement_guard`; can be run again. Needs the right to create both.
pub const SCHEMA: &str = include_str!("../sql/schema.sql");

/// First statement of the job's transaction: `$1` guard key (`text`), `$2` token (`bigint`). Answers one row without
/// meaning, or fails with [`STALE_SQLSTATE`].
pub const GUARD: &str = include_str!("../sql/guard.sql");

/// The same without the function: `$1` guard key, `$2` token. Answers one row, or **none** when the token is stale; then
/// the caller has to roll back by itself. For databases where nobody may create functions.
pub const RAISE: &str = include_str!("../sql/raise.sql");

/// The SQLSTATE of a refusal by [`GUARD`]. Not to be retried: this attempt was given up for dead.
pub const STALE_SQLSTATE: &str = "ZF001";
