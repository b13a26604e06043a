//! The public contract in Rust: generated messages and services, their conversions to and from `model`, and the
//! REST gateway and OpenAPI document that follow from the same descriptors.
//!
//! Invariant: a message that came from outside becomes a `model` value only through [`convert`], which names every
//! wrong field at once. Deliberately knows no database and no etcd, and decides nothing about jobs and runs.

pub mod auth;
pub mod convert;
pub mod document;
pub mod events;
pub mod fields;
pub mod openapi;
pub mod reflection;
pub mod status;
pub mod transcode;

use prost_reflect::DescriptorPool;
use std::sync::LazyLock;

/// Generated from `proto/escapement/v1`.
#[allow(clippy::all, missing_docs)]
pub mod v1 {
    tonic::include_proto!("escapement.v1");
}

/// The encoded descriptor set of the contract, `google.api.http` options included.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The descriptors of the contract.
#[allow(
    clippy::expect_used,
    reason = "the bytes are written by this crate's own build, and a test decodes them"
)]
pub fn descriptors() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> =
        LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("descriptors.bin is a descriptor set"));
    &POOL
}
