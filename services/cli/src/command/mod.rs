//! One file for each command.

pub mod apply;
pub mod backfill;
pub mod bootstrap;
pub mod delete;
pub mod dev;
pub mod fence;
pub mod follow;
pub mod get;
pub mod logs;
pub mod migrate;
pub mod pause;
pub mod preview;
pub mod rerun;
pub mod runs;
pub mod status;
pub mod trigger;
pub mod tenants;
pub mod tokens;
pub mod why;
