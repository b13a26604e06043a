//! TLS to PostgreSQL: what handshakes are made with, read anew for each connection.
//!
//! Invariants: each handshake uses one whole set of files; files that can't be used never replace ones that could; ring is
//! the only cryptography. Connections that stand are left alone: whoever changes files has both sets valid for a while.

mod verify;

use super::address::{Check, Roots, Wanted};
use crate::error::StoreError;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_postgres::Socket;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

/// What PostgreSQL from 17 on is told that it will hear; earlier ones don't ask.
const PROTOCOL: &[u8] = b"postgresql";

/// Makes handshakes; clones share what was read last.
#[derive(Clone)]
pub struct Tls {
    wanted: Wanted,
    used: Arc<Mutex<Used>>,
}

struct Used {
    material: Material,
    connect: MakeRustlsConnect,
    /// What is wrong with the files as they are now; said once.
    trouble: Option<String>,
}

/// What the files hold. Deliberately without `Debug`: the key is in it.
#[derive(PartialEq, Eq)]
struct Material {
    roots: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// With the files as they are.
    ///
    /// # Errors
    /// [`StoreError::Settings`] when they can't be used.
    pub fn new(wanted: Wanted) -> Result<Self, StoreError> {
        let material = read(&wanted).map_err(StoreError::Settings)?;
        let connect = configured(&wanted, &material).map_err(StoreError::Settings)?;
        let used = Arc::new(Mutex::new(Used { material, connect, trouble: None }));
        Ok(Self { wanted, used })
    }

    /// What the next handshake is made with. Reads three small files, which is little beside a handshake.
    fn current(&self) -> MakeRustlsConnect {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let found = read(&self.wanted).and_then(|material| {
            let changed = material != used.material;
            let connect = changed.then(|| configured(&self.wanted, &material)).transpose()?;
            Ok(connect.map(|connect| (material, connect)))
        });
        let trouble = match found {
            Ok(None) => None,
            Ok(Some((material, connect))) => {
                tracing::info!("Took the new TLS files of database_url");
                *used = Used { material, connect, trouble: None };
                None
            }
            Err(problem) => Some(problem),
        };
        // Between two writes a pair does not fit.
        if let Some(problem) = trouble.as_ref().filter(|problem| used.trouble.as_ref() != Some(*problem)) {
            tracing::error!(
                error = problem,
                "The TLS files of database_url can't be used: going on with the ones before"
            );
        }
        used.trouble = trouble;
        used.connect.clone()
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
    type Error = Infallible;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Infallible> {
        MakeTlsConnect::<Socket>::make_tls_connect(&mut self.current(), host)
    }
}

fn read(wanted: &Wanted) -> Result<Material, String> {
    let read = |parameter: &str, path: &Path| {
        std::fs::read(path).map_err(|error| format!("{parameter}: cannot read {}: {error}", path.display()))
    };
    let roots = match &wanted.check {
        Check::Chain(Roots::File(path)) | Check::ChainAndName(Roots::File(path)) => {
            Some(read("sslrootcert", path)?)
        }
        Check::Nothing | Check::Chain(Roots::System) | Check::ChainAndName(Roots::System) => None,
    };
    let identity = match &wanted.identity {
        Some((certificate, key)) => Some((read("sslcert", certificate)?, read("sslkey", key)?)),
        None => None,
    };
    Ok(Material { roots, identity })
}

fn configured(wanted: &Wanted, material: &Material) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier(&wanted.check, material, provider)?);
    let mut config = match wanted.identity.as_ref().zip(material.identity.as_ref()) {
        None => builder.with_no_client_auth(),
        Some(((certificate, key), (certificate_pem, key_pem))) => {
            let chain = certificates("sslcert", certificate, certificate_pem)?;
            let no_key = |error| {
                format!(
                    "sslkey: {} holds no private key in PEM that needs no password: {error}",
                    key.display()
                )
            };
            let private = PrivateKeyDer::from_pem_slice(key_pem).map_err(no_key)?;
            let unfit = |error| {
                let (key, certificate) = (key.display(), certificate.display());
                format!("sslkey: {key} is not the key of the first certificate in {certificate}: {error}")
            };
            builder.with_client_auth_cert(chain, private).map_err(unfit)?
        }
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

fn verifier(
    check: &Check,
    material: &Material,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let authorities = |roots: &Roots| match (roots, &material.roots) {
        (Roots::File(path), Some(pem)) => authorities(path, pem),
        _ => Ok(of_the_system()),
    };
    Ok(match check {
        Check::Nothing => Arc::new(verify::Lenient::new(None, &provider)),
        Check::Chain(roots) => Arc::new(verify::Lenient::new(Some(authorities(roots)?), &provider)),
        Check::ChainAndName(roots) => {
            let roots = Arc::new(authorities(roots)?);
            let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider);
            verifier.build().map_err(|error| format!("sslrootcert: {error}"))?
        }
    })
}

fn authorities(path: &Path, pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for authority in certificates("sslrootcert", path, pem)? {
        let added = roots.add(authority);
        added.map_err(|error| format!("sslrootcert: {} can't be used: {error}", path.display()))?;
    }
    Ok(roots)
}

/// None at all on a machine that trusts nobody; then no server is trusted.
fn of_the_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn certificates(parameter: &str, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let why = match found {
        Ok(found) if !found.is_empty() => return Ok(found),
        Ok(_) => String::new(),
        Err(error) => format!(": {error}"),
    };
    Err(format!("{parameter}: {} holds no certificate in PEM{why}", path.display()))
}

/// What a failed handshake means, if that is what `error` is.
pub fn explain(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // An I/O error's own error is not its source, but that one's source is.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(tls) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Some(meaning(tls));
        }
        cause = error.source();
    }
    None
}

fn meaning(error: &rustls::Error) -> &'static str {
    use rustls::Error::{AlertReceived, InvalidCertificate};
    match error {
        InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "the server's certificate is signed by none of the authorities that sslrootcert names"
        }
        InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "the server's certificate is not for the host that database_url names",
        InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the server's certificate has expired"
        }
        InvalidCertificate(_) => "the server's certificate is not acceptable",
        AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnsupportedCertificate,
        ) => "the server does not accept the certificate that sslcert names",
        _ => "the handshake failed",
    }
}
