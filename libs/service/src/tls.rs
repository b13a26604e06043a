//! TLS of the listeners: the certificate, its key, whom clients must be certified by, and the files anew when they change;
//! and a check of the files for etcd.
//!
//! Owns what a handshake is made with. Invariants: each handshake uses one whole set of files, never a certificate with
//! another's key; files that can't be used never replace ones that could; a connection that stands is never touched. ring
//! is the only cryptography. Deliberately not here: who may do what. A client's certificate opens the door and nothing
//! else; the token says who it is.

mod connection;
mod incoming;
pub(crate) mod outgoing;
mod reload;
#[cfg(test)]
mod tests;

pub use connection::{Connection, Introduce, Peer, introducing};
pub use incoming::Incoming;

use crate::config::{Common, Problem};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

const CERTIFICATE: &str = "tls_certificate_file";
const KEY: &str = "tls_key_file";
const CLIENT_CA: &str = "tls_client_ca_file";
/// What is spoken inside: gRPC asks for the first, and REST for either.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The TLS of a process's listeners; clones share it.
#[derive(Debug, Clone)]
pub struct Tls {
    current: watch::Receiver<Arc<ServerConfig>>,
}

impl Tls {
    /// With the files as they are, followed from now on for as long as a clone is left.
    ///
    /// # Errors
    /// A [`Problem`] that names the setting whose file can't be used.
    pub fn follow(files: Files) -> Result<Self, Problem> {
        let material = files.read()?;
        let (sender, current) = watch::channel(Arc::new(files.configured(&material)?));
        tokio::spawn(reload::run(files, material, sender));
        Ok(Self { current })
    }

    /// What the next handshake is made with.
    fn current(&self) -> Arc<ServerConfig> {
        self.current.borrow().clone()
    }
}

/// Where certificate, key and the clients' authority are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// What the files hold. Deliberately without `Debug`: the key is in it.
#[derive(PartialEq, Eq)]
struct Material {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Files {
    /// The files that the settings name; none when they name none, which is TLS switched off.
    ///
    /// # Errors
    /// A [`Problem`] when they name a part only.
    pub fn of(common: &Common) -> Result<Option<Self>, Problem> {
        let missing =
            |setting, with| Err(Problem::new(setting, format!("is missing, and {with} is set: give both")));
        match (&common.tls_certificate_file, &common.tls_key_file, &common.tls_client_ca_file) {
            (None, None, None) => Ok(None),
            (None, Some(_), _) => missing(CERTIFICATE, KEY),
            (None, None, Some(_)) => missing(CERTIFICATE, CLIENT_CA),
            (Some(_), None, _) => missing(KEY, CERTIFICATE),
            (Some(certificate), Some(key), client_ca) => Ok(Some(Self {
                certificate: certificate.clone(),
                key: key.clone(),
                client_ca: client_ca.clone(),
            })),
        }
    }

    /// Whether the files can be used as they are now.
    ///
    /// # Errors
    /// A [`Problem`] that names the setting whose file can't be used.
    pub fn check(&self) -> Result<(), Problem> {
        self.configured(&self.read()?).map(drop)
    }

    /// Blocks for as long as the files take to be read.
    fn read(&self) -> Result<Material, Problem> {
        let client_ca = self.client_ca.as_deref().map(|path| read(CLIENT_CA, path)).transpose()?;
        Ok(Material {
            certificate: read(CERTIFICATE, &self.certificate)?,
            key: read(KEY, &self.key)?,
            client_ca,
        })
    }

    fn configured(&self, material: &Material) -> Result<ServerConfig, Problem> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = certificates(CERTIFICATE, &self.certificate, &material.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&material.key).map_err(|error| {
            let message = format!("{} holds no private key in PEM: {error}", self.key.display());
            Problem::new(KEY, message)
        })?;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Problem::new(CERTIFICATE, error.to_string()))?;
        let builder = match self.client_ca.as_deref().zip(material.client_ca.as_deref()) {
            None => builder.with_no_client_auth(),
            Some((path, pem)) => {
                let cannot = |error: &dyn std::fmt::Display| {
                    Problem::new(CLIENT_CA, format!("{} can't be used: {error}", path.display()))
                };
                let mut authorities = RootCertStore::empty();
                for authority in certificates(CLIENT_CA, path, pem)? {
                    authorities.add(authority).map_err(|error| cannot(&error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities.into(), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|error| cannot(&error))?)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| self.unfit(&error))?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(config)
    }

    fn unfit(&self, error: &rustls::Error) -> Problem {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        match error {
            rustls::Error::InconsistentKeys(_) => {
                let message =
                    format!("{key} is not the key of the first certificate in {certificate}: give that one");
                Problem::new(KEY, message)
            }
            error => Problem::new(CERTIFICATE, format!("{certificate} can't be used with {key}: {error}")),
        }
    }
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, Problem> {
    std::fs::read(path)
        .map_err(|error| Problem::new(setting, format!("cannot read {}: {error}", path.display())))
}

fn certificates(setting: &str, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let why = match found {
        Ok(found) if !found.is_empty() => return Ok(found),
        Ok(_) => String::new(),
        Err(error) => format!(": {error}"),
    };
    Err(Problem::new(setting, format!("{} holds no certificate in PEM{why}", path.display())))
}
