//! An authority of a test's own, which certifies this machine and whoever is to be certified.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};

/// Signs certificates that only those accept who trust it.
pub struct Authority {
    /// Its own certificate, in PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, both in PEM.
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Authority {
    /// A new one, which nobody trusts yet.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        // A name of its own: OpenSSL takes a certificate that has its issuer's name for one that signed itself.
        params.distinguished_name.push(DnType::CommonName, "Escapement test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for 127.0.0.1, good for a server and for a client.
    pub fn issue(&self) -> Certified {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Certified { certificate, key: key.serialize_pem() }
    }

    /// Writes its own certificate to `name` in `folder`.
    pub fn write(&self, folder: &Path, name: &str) -> PathBuf {
        write(folder, name, &self.pem)
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Certified {
    /// Writes certificate and key to `name.pem` and `name.key` in `folder`; their paths.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let certificate = write(folder, &format!("{name}.pem"), &self.certificate);
        (certificate, write(folder, &format!("{name}.key"), &self.key))
    }

    /// Both in one text, as an HTTP client takes them.
    pub fn identity(&self) -> reqwest::Identity {
        reqwest::Identity::from_pem(format!("{}{}", self.certificate, self.key).as_bytes()).expect("PEM")
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path
}
