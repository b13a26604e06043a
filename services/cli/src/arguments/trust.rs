//! By which certificates registry and command line know each other. Contexts keep the same, as paths: what the files hold is
//! never copied.

use anyhow::{Context as _, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Whom the registry must be certified by, and what it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Trust {
    /// Authorities, in PEM, one of which must have signed the registry's certificate [env: ESCAPEMENT_CA_FILE]; those that
    /// this machine trusts without it.
    #[arg(long, global = true, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The certificate, in PEM, that is shown to a registry that asks for one [env: ESCAPEMENT_CLIENT_CERTIFICATE].
    #[arg(long, global = true, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<PathBuf>,
    /// The key of that certificate, in PEM [env: ESCAPEMENT_CLIENT_KEY].
    #[arg(long, global = true, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
}

/// What the files hold, as the HTTP client takes it.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    authorities: Option<Vec<reqwest::Certificate>>,
    identity: Option<reqwest::Identity>,
}

impl Trust {
    /// What the environment says.
    pub fn of_environment() -> Self {
        let file = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            ca_file: file("ESCAPEMENT_CA_FILE"),
            client_certificate: file("ESCAPEMENT_CLIENT_CERTIFICATE"),
            client_key: file("ESCAPEMENT_CLIENT_KEY"),
        }
    }

    /// This, and where it says nothing `other`. A certificate and its key stay together.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let alone = self.client_certificate.is_none() && self.client_key.is_none();
        let pair = if alone { &other } else { &self };
        Self {
            client_certificate: pair.client_certificate.clone(),
            client_key: pair.client_key.clone(),
            ca_file: self.ca_file.or(other.ca_file),
        }
    }

    /// The same files, wherever one is later.
    ///
    /// # Errors
    /// When the current folder is unknown.
    pub fn absolute(&self) -> std::io::Result<Self> {
        let absolute = |file: &Option<PathBuf>| file.as_ref().map(std::path::absolute).transpose();
        Ok(Self {
            ca_file: absolute(&self.ca_file)?,
            client_certificate: absolute(&self.client_certificate)?,
            client_key: absolute(&self.client_key)?,
        })
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// When one can't be read or holds something else, or a certificate comes without its key.
    pub fn read(&self) -> anyhow::Result<Trusted> {
        let authorities = self.ca_file.as_deref().map(|path| {
            let found = reqwest::Certificate::from_pem_bundle(&pem("--ca-file", path)?);
            match found {
                Ok(found) if !found.is_empty() => Ok(found),
                Ok(_) => bail!("--ca-file: {} holds no certificate in PEM", path.display()),
                Err(error) => {
                    Err(error).with_context(|| format!("--ca-file: {} can't be used", path.display()))
                }
            }
        });
        let identity = match (&self.client_certificate, &self.client_key) {
            (None, None) => None,
            (Some(_), None) => bail!("--client-certificate needs --client-key with it"),
            (None, Some(_)) => bail!("--client-key needs --client-certificate with it"),
            (Some(certificate), Some(key)) => {
                let mut both = pem("--client-certificate", certificate)?;
                both.extend(pem("--client-key", key)?);
                let identity = reqwest::Identity::from_pem(&both);
                Some(
                    identity
                        .context("--client-certificate and --client-key: one holds something else in PEM")?,
                )
            }
        };
        Ok(Trusted { authorities: authorities.transpose()?, identity })
    }
}

impl Trusted {
    /// Begins an HTTP client.
    pub fn client(&self) -> reqwest::ClientBuilder {
        let mut builder = reqwest::Client::builder();
        if let Some(authorities) = &self.authorities {
            builder = builder.tls_certs_only(authorities.iter().cloned());
        }
        if let Some(identity) = &self.identity {
            builder = builder.identity(identity.clone());
        }
        builder
    }
}

fn pem(argument: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{argument}: reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(trust: &Trust) -> String {
        format!("{:#}", trust.read().expect_err("it can't be used"))
    }

    #[test]
    fn a_certificate_stays_with_its_key() {
        let trust = |files: [&str; 3]| {
            let [ca_file, client_certificate, client_key] =
                files.map(|file| (!file.is_empty()).then(|| PathBuf::from(file)));
            Trust { ca_file, client_certificate, client_key }
        };
        let stored = || trust(["sa", "sc", "sk"]);
        assert_eq!(trust(["", "", ""]).or(stored()), stored());
        assert_eq!(trust(["a", "", ""]).or(stored()), trust(["a", "sc", "sk"]));
        assert_eq!(trust(["", "c", ""]).or(stored()), trust(["sa", "c", ""]));
        assert_eq!(trust(["a", "c", "k"]).or(stored()), trust(["a", "c", "k"]));
    }

    #[test]
    fn what_can_not_be_used_is_named_by_its_argument() {
        let nowhere = || Some(PathBuf::from("/nowhere/x.pem"));
        assert!(Trust::default().read().is_ok());
        let half = Trust { client_key: nowhere(), ..Trust::default() };
        assert_eq!(refused(&half), "--client-key needs --client-certificate with it");
        let half = Trust { client_certificate: nowhere(), ..Trust::default() };
        assert_eq!(refused(&half), "--client-certificate needs --client-key with it");
        let missing = Trust { ca_file: nowhere(), ..Trust::default() };
        assert!(
            refused(&missing).starts_with("--ca-file: reading /nowhere/x.pem: "),
            "{}",
            refused(&missing)
        );
    }
}
