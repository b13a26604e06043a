//! What every binary shares: settings, telemetry, the operations server, signals and the staged way out.
//!
//! Owns how a process starts and ends; a service's `main` is one call of [`runtime::main`]. Invariant: whatever a
//! service does, `/healthz`, `/readyz` and `/metrics` answer from before it connects to anything until after it
//! has let go of everything. Deliberately knows no database, no etcd and no API: those belong to the services.

pub mod config;
pub mod door;
pub mod egress;
pub mod endpoints;
pub mod health;
mod http;
mod patience;
pub mod refusal;
pub mod runtime;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
