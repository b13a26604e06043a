//! Generates the Rust side of `proto/escapement/v1` without protoc, and keeps the descriptors with their
//! `google.api.http` options for the REST gateway and OpenAPI.

use std::path::PathBuf;

const FILES: [&str; 13] = [
    "escapement/v1/alert.proto",
    "escapement/v1/apply.proto",
    "escapement/v1/audit.proto",
    "escapement/v1/calendar.proto",
    "escapement/v1/channel.proto",
    "escapement/v1/check_in.proto",
    "escapement/v1/job.proto",
    "escapement/v1/run.proto",
    "escapement/v1/schedule.proto",
    "escapement/v1/status.proto",
    "escapement/v1/tenant.proto",
    "escapement/v1/token.proto",
    "escapement/v1/worker.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;
    // The typed descriptor set loses unknown options, `google.api.http` among them; this encoding keeps them.
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
