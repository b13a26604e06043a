//! How dispatchers are reached: in the clear, or by TLS; whom it trusts then, and what it shows of itself.

use crate::link;
use crate::worker::BuildError;
use std::sync::Arc;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// Begins a certificate in PEM.
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// What TLS to dispatchers needs, in PEM; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Trust {
    authority: Option<Arc<[u8]>>,
    identity: Option<Identity>,
}

impl Trust {
    /// Trusts dispatchers whose certificates the authority `pem` has signed.
    pub(crate) fn believe(&mut self, pem: Vec<u8>) {
        self.authority = Some(pem.into());
    }

    /// Shows `certificate`, whose key is `key`, to those that ask for one.
    pub(crate) fn show(&mut self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) {
        self.identity = Some(Identity::from_pem(certificate, key));
    }

    /// How a dispatcher at `address` is reached.
    pub(crate) fn endpoint(&self, address: &str) -> Result<Endpoint, BuildError> {
        let wrong = |source| BuildError::Address { address: address.to_owned(), source };
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| wrong(Some(error)))?;
        let endpoint = match (endpoint.uri().scheme_str(), endpoint.uri().host(), &self.authority) {
            (Some("http"), Some(_), _) => endpoint,
            (Some("https"), Some(_), Some(pem)) => {
                if !pem.windows(BEGIN.len()).any(|part| part == BEGIN) {
                    return Err(BuildError::EmptyAuthority { address: address.to_owned() });
                }
                let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
                if let Some(identity) = &self.identity {
                    tls = tls.identity(identity.clone());
                }
                let unusable = |source| BuildError::Tls { address: address.to_owned(), source };
                endpoint.tls_config(tls).map_err(unusable)?
            }
            (Some("https"), Some(_), None) => {
                return Err(BuildError::NoAuthority { address: address.to_owned() });
            }
            _ => return Err(wrong(None)),
        };
        Ok(link::tuned(endpoint))
    }
}
