//! The SDK of a program that does the work of runs.
//!
//! A [`Worker`] keeps a session with one of the dispatchers, takes runs from its queues, hands them to handlers (or
//! to an [`Executor`] that takes any work) and reports how they ended, again and again until that is in the ledger.
//! It stops its own runs when their time is over, and when its lease could not be renewed: then they may be given
//! to another worker. While the database is away, and every dispatcher says so, nobody can do that, and they go on.
//!
//! *Each occurrence gets exactly one run; each run is attempted at least once; its result is recorded once.* So
//! work must bear a second attempt: give [`RunContext::idempotency_key`] or [`RunContext::fencing_token`] to what
//! it writes to.
//!
//! A job names its queue, and its handler within it: `queue: billing`, `run: {handler: {name: invoice, payload: …}}`. A
//! dispatcher hands the run to any worker of the queue with a free slot, so all workers of a queue should have the
//! same handlers. One that lacks the handler refuses the run: the attempt ends as `NOT_STARTED`, a failed one, with a
//! text that says which handlers it has.
//!
//! ```no_run
//! use worker::{BoxError, RunContext, Worker};
//!
//! #[derive(serde::Deserialize)]
//! struct Invoice { customer: String }
//!
//! # async fn example() -> Result<(), BoxError> {
//! let worker = Worker::builder()
//!     .dispatchers(["http://127.0.0.1:7001", "http://127.0.0.1:7002"])
//!     .token(std::fs::read_to_string("worker.token")?.trim())
//!     .queue("billing")
//!     .slots(8)
//!     .typed_handler("invoice", |run: RunContext, invoice: Invoice| async move {
//!         run.log(format!("for {} under token {}", invoice.customer, run.fencing_token()));
//!         Ok::<(), BoxError>(())
//!     })
//!     .build()?;
//! let summary = worker.run(worker::termination()?).await;
//! println!("{} attempts", summary.finished);
//! # Ok(())
//! # }
//! ```
//!
//! `docs/workers.md` begins with a whole program.

mod ask;
mod assignment;
mod clock;
mod context;
mod drain;
mod executor;
mod going;
mod hand;
mod identity;
mod keeper;
mod lease;
mod link;
mod live;
mod payload;
mod report;
mod ring;
mod signals;
mod supervise;
mod told;
mod trust;
mod worker;

pub use context::RunContext;
pub use executor::{BoxError, Execution, Executor};
pub use live::{LIVE_MAX_BYTES, NOTE_MAX_CHARS};
pub use payload::PayloadError;
pub use report::{ERROR_MAX_BYTES, End, OUTPUT_MAX_BYTES, Report};
pub use signals::termination;
pub use worker::{BuildError, SLOTS_MAX, Status, Summary, Worker, WorkerBuilder};
