//! Messages to `model` and back. Reading never stops at the first wrong field; writing never fails.

pub mod job;
pub mod run;
pub mod time;
pub mod work;
