//! The words of Escapement as types, and the decisions that need nothing but them.
//!
//! Pure: no clock, no I/O, no SQL, no etcd, no gRPC. Time is always an argument. What a job, an occurrence, a
//! run, an attempt, a lease and a token are is said here once; every other crate uses these types.

pub mod alert;
pub mod attempt;
pub mod calendar;
pub mod channel;
pub mod check_in;
pub mod clock_guard;
pub mod ids;
pub mod job;
pub mod outage;
pub mod policy;
pub mod release;
pub mod run;
pub mod severity;
pub mod system_health;
pub mod token;
pub mod validate;
