//! One file for each command.

pub mod apply;
pub mod bootstrap;
pub mod delete;
pub mod dev;
pub mod fence;
pub mod follow;
pub mod get;
pub mod migrate;
pub mod runs;
pub mod status;
