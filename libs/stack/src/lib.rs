//! Starts what Escapement stands on, as child processes on free loopback ports: etcd and PostgreSQL.
//!
//! One engine for the local stack, the tests and the benchmarks. Invariant: no process outlives the one that
//! started it, whichever way that one ends ([`process`]), and no two launchers get the same port ([`ports`]).
//! [`dev`] puts every service of Escapement on top. It installs nothing.

pub mod binary;
pub mod dev;
pub mod ending;
pub mod error;
pub mod etcd;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod testkit;
pub mod user;
pub mod wait;

pub use error::StackError;
