//! What the guard's tests share.

pub mod redis;
