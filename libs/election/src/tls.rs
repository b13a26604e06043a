//! TLS to etcd: whom its members must be certified by, and what they are shown.
//!
//! The files are read whenever a connection is made, so that new ones count from the next one on; those that can't be
//! used at that moment are a doubt like any other, and tried again. Connections that stand are left alone.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use etcd_client::{Certificate, Identity, TlsOptions};
use rustls::{AlertDescription, CertificateError};
use tonic::Code;

use crate::ElectionError;

/// The files; used for endpoints that begin with `https` only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Authorities in PEM, one of which must have signed the members' certificates; without it, those that this machine
    /// trusts.
    pub ca_file: Option<PathBuf>,
    /// The certificate that members are shown, with those between it and its authority after it, and its key, in PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// What the files hold now.
    ///
    /// # Errors
    /// [`ElectionError::File`] when one can't be read.
    pub(crate) async fn read(&self) -> Result<TlsOptions, ElectionError> {
        let mut options = TlsOptions::new();
        options = match &self.ca_file {
            Some(path) => options.ca_certificate(Certificate::from_pem(read(path).await?)),
            None => options.with_native_roots(),
        };
        if let Some((certificate, key)) = &self.identity {
            options = options.identity(Identity::from_pem(read(certificate).await?, read(key).await?));
        }
        Ok(options)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, ElectionError> {
    let read = tokio::fs::read(path).await;
    read.map_err(|source| ElectionError::File { path: path.to_owned(), source })
}

/// What a failed handshake means, if that is what `error` is.
pub(crate) fn explain(error: &etcd_client::Error) -> Option<&'static str> {
    causes(error).find_map(|cause| {
        // An I/O error's own error is not its source, but that one's source is.
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        cause.downcast_ref::<rustls::Error>().or(inner).map(meaning)
    })
}

/// Whether the connection was ended by the other side. So does, in TLS 1.3, who does not accept a certificate: its alert
/// may come too late to be read.
pub(crate) fn was_ended(error: &etcd_client::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, UnexpectedEof};
    // An alert that is read late comes as text in invalid data.
    let ended = [BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, UnexpectedEof];
    was_closed_first(error)
        || causes(error)
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|error| ended.contains(&error.kind()))
}

/// Whether the connection was closed before the request was on it, as the client says of itself: what etcd says has no cause.
fn was_closed_first(error: &etcd_client::Error) -> bool {
    match error {
        etcd_client::Error::GRpcStatus(status) => {
            status.code() == Code::Cancelled && status.source().is_some()
        }
        _ => false,
    }
}

/// The client's error does not say what caused it, but these say it of themselves.
fn causes(error: &etcd_client::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: Option<&(dyn Error + 'static)> = match error {
        etcd_client::Error::GRpcStatus(status) => Some(status),
        etcd_client::Error::TransportError(error) => Some(error),
        _ => None,
    };
    std::iter::successors(first, |cause| (*cause).source())
}

fn meaning(error: &rustls::Error) -> &'static str {
    use rustls::Error::{AlertReceived, InvalidCertificate};
    match error {
        InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "its certificate is signed by none of the authorities that etcd_ca_file names"
        }
        InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is not for the host that etcd_endpoints names",
        InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired"
        }
        InvalidCertificate(_) => "its certificate is not acceptable",
        AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnsupportedCertificate,
        ) => "it does not accept the certificate that etcd_client_certificate_file names",
        rustls::Error::InconsistentKeys(_) => {
            "etcd_client_key_file is not the key of the certificate in etcd_client_certificate_file"
        }
        _ => "the handshake failed",
    }
}
