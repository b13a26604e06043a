//! A server that speaks TLS and nothing else.

use std::path::PathBuf;

use super::Postgres;
use super::init::remove_if_there;
use crate::StackError;
use crate::error::file_error;

/// What it shows, whom it asks for what, and what clients are told.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Its certificate, in PEM.
    pub certificate: String,
    /// The key of that certificate, in PEM.
    pub key: String,
    /// Authorities, in PEM, one of which must have signed the certificate that each client has to show.
    pub client_ca: Option<String>,
    /// How clients connect, `psql` among them, in libpq's words: `sslmode=verify-full&sslrootcert=…`.
    pub query: String,
}

impl Postgres {
    /// Writes what the server reads about TLS, and that it takes no connection without. Nothing without TLS.
    pub(super) fn write_tls(&self) -> Result<(), StackError> {
        let Some(tls) = &self.options.tls else { return Ok(()) };
        self.write_password(&self.tls_file("server.key"), &tls.key)?;
        let asked = if tls.client_ca.is_some() { " clientcert=verify-ca" } else { "" };
        let access = format!("hostssl all all 127.0.0.1/32 trust{asked}\n");
        let authorities = tls.client_ca.as_ref().map(|authorities| ("clients.pem", authorities));
        let files =
            [("server.pem", &tls.certificate), ("access.conf", &access)].into_iter().chain(authorities);
        for (name, text) in files {
            let path = self.tls_file(name);
            remove_if_there(&path)?;
            std::fs::write(&path, text).map_err(file_error("writing", &path))?;
        }
        Ok(())
    }

    /// The settings that name those files.
    pub(super) fn tls_settings(&self) -> Vec<(String, String)> {
        let Some(tls) = &self.options.tls else { return Vec::new() };
        let file = |setting: &str, name| (setting.to_owned(), self.tls_file(name).display().to_string());
        let mut settings = vec![
            ("ssl".to_owned(), "on".to_owned()),
            file("ssl_cert_file", "server.pem"),
            file("ssl_key_file", "server.key"),
            file("hba_file", "access.conf"),
        ];
        settings.extend(tls.client_ca.is_some().then(|| file("ssl_ca_file", "clients.pem")));
        settings
    }

    fn tls_file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}
