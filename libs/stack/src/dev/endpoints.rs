//! `endpoints.json`: where the parts of a running stack answer. Its being there means that all are ready.

use crate::{StackError, error::file_error};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file's name in the stack's folder.
pub const ENDPOINTS_FILE: &str = "endpoints.json";

/// Where everything answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// The process that holds the stack.
    pub pid: u32,
    /// The registry.
    pub registry: RegistryEndpoint,
    /// Tickers.
    pub tickers: Vec<ProcessEndpoint>,
    /// Dispatchers.
    pub dispatchers: Vec<ProcessEndpoint>,
    /// Watchdogs.
    pub watchdogs: Vec<ProcessEndpoint>,
    /// Agents.
    pub agents: Vec<ProcessEndpoint>,
    /// Client addresses.
    pub etcd: Vec<String>,
    /// Address with password.
    pub postgres: String,
    /// Holds the bearer token of the administrator.
    pub admin_token_file: PathBuf,
    /// Holds the bearer token of worker programs.
    pub worker_token_file: PathBuf,
}

/// A registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryEndpoint {
    /// Base address of REST.
    pub rest: String,
    /// Address of gRPC.
    pub grpc: String,
    /// Process id.
    pub pid: u32,
}

/// Any other process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEndpoint {
    /// Its name in the stack.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Base address of health and metrics.
    pub http: String,
    /// Address of gRPC, if it has one: a dispatcher's is for workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<String>,
}

impl Endpoints {
    /// Those of the stack that runs in `data`.
    ///
    /// # Errors
    /// [`StackError::File`] when none is ready there.
    pub fn read(data: &Path) -> Result<Self, StackError> {
        let path = data.join(ENDPOINTS_FILE);
        let text = std::fs::read(&path).map_err(file_error("reading", &path))?;
        serde_json::from_slice(&text).map_err(std::io::Error::from).map_err(file_error("reading", &path))
    }

    /// Writes them whole or not at all: a reader never sees half of it.
    pub(super) fn write(&self, data: &Path) -> Result<(), StackError> {
        let path = data.join(ENDPOINTS_FILE);
        let partial = data.join(format!("{ENDPOINTS_FILE}.partial"));
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::from);
        let text = text.map_err(file_error("writing", &path))?;
        std::fs::write(&partial, text).map_err(file_error("writing", &partial))?;
        std::fs::rename(&partial, &path).map_err(file_error("writing", &path))
    }
}

/// Removes what an earlier stack left.
pub(super) fn forget(data: &Path) -> Result<(), StackError> {
    let path = data.join(ENDPOINTS_FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(file_error("removing", path)(error))
        }
        _ => Ok(()),
    }
}
