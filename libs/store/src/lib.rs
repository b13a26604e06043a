//! The only crate with SQL: migrations, one `.sql` file for each statement, one function for each file.
//!
//! Invariants that every caller may rely on: each write made on someone's behalf is fenced or matched by attempt
//! and token, and says in its `#[must_use]` answer whether it applied; locks are taken in the order
//! idempotency_key, fence, ledger_floor, epoch, job_cursor, watch_cursor, catch_up, job, tenant_limit, tenant, worker_session, run_queue,
//! calendar, run_lease, run_parked, run, catch_up_pace, api_token, and within a table by primary key; all SQL takes the time from
//! `esc_now()`.
//!
//! What it does not do: decide. Decisions are pure functions in `model` and `schedule`; where a statement must
//! decide while it holds its locks, its header says which function it mirrors.

mod connect;
mod error;
mod migrate;

pub mod alert;
pub mod alert_channel;
pub mod alert_delivery;
pub mod alert_group;
pub mod alert_life;
pub mod api_token;
pub mod audit;
pub mod backfill;
pub mod calendar;
pub mod catch_up;
pub mod channel_test;
pub mod check_in;
pub mod clock;
pub mod dispatcher;
pub mod ends;
pub mod epoch;
pub mod fence;
pub mod history;
pub mod idempotency_key;
pub mod job;
pub mod job_change;
pub mod job_cursor;
pub mod job_revision;
pub mod ledger_floor;
pub mod manual;
pub mod misfire;
pub mod partition;
pub mod retention;
pub mod run;
pub mod run_cancel;
pub mod run_end;
pub mod run_event;
pub mod run_lease;
pub mod run_live;
pub mod run_outcome;
pub mod run_parked;
pub mod run_queue;
pub mod run_rerun;
pub mod status;
pub mod system;
pub mod system_alert;
pub mod tenant;
pub mod tenant_limit;
pub mod term;
pub mod tzdata;
pub mod verdict;
pub mod watch_cursor;
pub mod why;
pub mod worker_session;

pub use connect::{Client, Settings, Store, Transaction};
pub use error::{Retry, StoreError};
pub use migrate::{SCHEMA_VERSION, migrate};

/// The text of `sql/<path>`.
macro_rules! sql {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $path))
    };
}
pub(crate) use sql;
