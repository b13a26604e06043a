//! The public contract in Rust: generated messages and services, conversions to and from `model`.

/// Generated from `proto/escapement/v1`.
#[allow(clippy::all, missing_docs)]
pub mod v1 {
    tonic::include_proto!("escapement.v1");
}

/// The encoded descriptor set of the contract, `google.api.http` options included.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
