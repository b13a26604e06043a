//! The files with which etcd is reached, as far as they can be checked before anybody is reached. `election` reads them
//! again for each connection.

use super::{certificates, read};
use crate::config::{Common, Problem};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

const CA: &str = "etcd_ca_file";
const CERTIFICATE: &str = "etcd_client_certificate_file";
const KEY: &str = "etcd_client_key_file";

/// What is wrong with the files that the settings name for etcd. Blocks for as long as they take to be read.
pub fn problems(common: &Common) -> Vec<Problem> {
    let ca = common.etcd_ca_file.as_deref();
    let (certificate, key) =
        (common.etcd_client_certificate_file.as_deref(), common.etcd_client_key_file.as_deref());
    let identity = match (certificate, key) {
        (None, None) => Ok(()),
        (Some(_), None) => Err(Problem::new(KEY, format!("is missing, and {CERTIFICATE} is set: give both"))),
        (None, Some(_)) => Err(Problem::new(CERTIFICATE, format!("is missing, and {KEY} is set: give both"))),
        (Some(certificate), Some(key)) => identity(certificate, key),
    };
    let problems = [ca.map_or(Ok(()), authorities), identity, used(common)];
    problems.into_iter().filter_map(Result::err).collect()
}

fn authorities(path: &Path) -> Result<(), Problem> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(CA, path, &read(CA, path)?)? {
        let added = roots.add(authority);
        added.map_err(|error| Problem::new(CA, format!("{} can't be used: {error}", path.display())))?;
    }
    Ok(())
}

fn identity(certificate: &Path, key: &Path) -> Result<(), Problem> {
    let chain = certificates(CERTIFICATE, certificate, &read(CERTIFICATE, certificate)?)?;
    let private = PrivateKeyDer::from_pem_slice(&read(KEY, key)?).map_err(|error| {
        Problem::new(KEY, format!("{} holds no private key in PEM: {error}", key.display()))
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Problem::new(CERTIFICATE, error.to_string()))?;
    let fits = builder.with_root_certificates(RootCertStore::empty()).with_client_auth_cert(chain, private);
    fits.map(drop).map_err(|error| {
        let (key, certificate) = (key.display(), certificate.display());
        let message = format!("{key} is not the key of the first certificate in {certificate}: {error}");
        Problem::new(KEY, message)
    })
}

/// Files that nothing is encrypted with are a mistake.
fn used(common: &Common) -> Result<(), Problem> {
    if common.etcd_endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) {
        return Ok(());
    }
    let given = [(CA, &common.etcd_ca_file), (CERTIFICATE, &common.etcd_client_certificate_file)];
    match given.into_iter().find(|(_, file)| file.is_some()) {
        None => Ok(()),
        Some((setting, _)) => {
            let message = "has no effect: no address in etcd_endpoints begins with https://";
            Err(Problem::new(setting, message))
        }
    }
}
