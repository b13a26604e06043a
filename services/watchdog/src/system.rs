//! The watch over the system itself: what is wrong with it is told once, however many watchdogs see it and however many
//! jobs it makes late.
//!
//! Two kinds of eyes. The leader ([`watch`]) sees what only matters while somebody leads, and writes under its fence. Every
//! watchdog ([`stand`]) sees what keeps anybody from leading, etcd and PostgreSQL themselves: of etcd it tells by way of the
//! outbox, where an index lets one alert of a kind be open; of PostgreSQL directly, from what it last knew ([`known`],
//! [`direct`]), under a key that is the same whoever tells. What is wrong is decided in [`model::system_health`].

mod audience;
mod direct;
pub mod group;
mod heartbeat;
mod known;
mod stand;
mod watch;
mod words;
mod write;

pub use heartbeat::Heartbeat;
pub use stand::Stand;
pub use watch::{Settings, Watch};
