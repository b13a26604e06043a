//! One file for each command.

pub mod alerts;
pub mod apply;
pub mod backfill;
pub mod bootstrap;
pub mod channels;
pub mod check_ins;
pub mod coming;
pub mod create;
pub mod delete;
pub mod describe;
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
pub mod tenants;
pub mod tokens;
pub mod trigger;
pub mod watch;
pub mod why;
