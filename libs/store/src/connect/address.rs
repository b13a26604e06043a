//! The address of PostgreSQL: what the driver reads of it, and what it says of TLS in libpq's words. Pure.
//!
//! Invariant: an address never means less protection than libpq would give it; what can't be had is refused with its
//! name. Not here: the files that it names are read in `tls`.

use crate::error::StoreError;
use percent_encoding::percent_decode_str;
use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use tokio_postgres::config::{Host, SslMode};

/// Says of `sslrootcert` that the authorities are those that the machine trusts.
const SYSTEM: &str = "system";
/// The parameters of an address that are read here.
const PARAMETERS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];
/// One about TLS that the driver reads.
const DRIVERS_OWN: &str = "sslnegotiation";
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// An address, taken apart.
pub struct Address {
    /// Without what `tls` says, but for whether there is TLS at all.
    pub driver: tokio_postgres::Config,
    /// How the server is checked, and what it is shown.
    pub tls: Wanted,
}

/// What TLS is made with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What is asked of the server's certificate.
    pub check: Check,
    /// The certificate that is shown to the server, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What is asked of the server's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Check {
    /// Nothing: nobody can listen, and anybody can pretend to be the server.
    #[default]
    Nothing,
    /// That an authority has signed it.
    Chain(Roots),
    /// That an authority has signed it for the host that was asked for.
    ChainAndName(Roots),
}

/// Whose signature counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// Those of the authorities in this file.
    File(PathBuf),
    /// Those that this machine trusts.
    System,
}

/// Takes an address apart.
///
/// # Errors
/// [`StoreError::Settings`] with what is wrong.
pub fn read(url: &str) -> Result<Address, StoreError> {
    let (plain, given) = match SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        true => split(url)?,
        // `key=value` pairs have no files for TLS; the driver reads the modes that need none.
        false => (url.to_owned(), Given::default()),
    };
    let mut driver = tokio_postgres::Config::from_str(&plain).map_err(|error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        wrong(format!("the address is wrong: {error}{cause}"))
    })?;
    let [mode, root, certificate, key] = given.0;
    let (mode, check) = check(mode.as_deref(), root)?;
    if let Some(mode) = mode {
        driver.ssl_mode(mode);
    }
    // As in libpq, there is no TLS over a socket of this machine.
    if driver.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) && !driver.get_hosts().is_empty() {
        driver.ssl_mode(SslMode::Disable);
    }
    let identity = match (certificate, key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (Some(_), None) => return Err(wrong("sslkey is missing, and sslcert is set: give both")),
        (None, Some(_)) => return Err(wrong("sslcert is missing, and sslkey is set: give both")),
    };
    if driver.get_ssl_mode() == SslMode::Disable {
        return Ok(Address { driver, tls: Wanted::default() });
    }
    Ok(Address { driver, tls: Wanted { check, identity } })
}

/// The values of [`PARAMETERS`].
#[derive(Default)]
struct Given([Option<String>; 4]);

/// The address without [`PARAMETERS`], and those.
fn split(url: &str) -> Result<(String, Given), StoreError> {
    // A password may have a question mark in it.
    let host = url.find('@').map_or(0, |at| at + 1);
    let Some(query) = url[host..].find('?').map(|at| host + at) else {
        return Ok((url.to_owned(), Given::default()));
    };
    let (mut given, mut others) = (Given::default(), Vec::new());
    for pair in url[query + 1..].split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match PARAMETERS.iter().position(|known| *known == name) {
            Some(at) => {
                let value = percent_decode_str(value)
                    .decode_utf8()
                    .map_err(|_| wrong(format!("{name} is not UTF-8")))?;
                if given.0[at].replace(value.into_owned()).is_some() {
                    return Err(wrong(format!("{name} is there twice: give it once")));
                }
            }
            None if name.starts_with("ssl") && name != DRIVERS_OWN => {
                let known = PARAMETERS.join(", ");
                return Err(wrong(format!("{name} is not supported: of TLS use {known} and {DRIVERS_OWN}")));
            }
            None => others.push(pair),
        }
    }
    let plain = match others.is_empty() {
        true => url[..query].to_owned(),
        false => format!("{}?{}", &url[..query], others.join("&")),
    };
    Ok((plain, given))
}

/// What `sslmode` and `sslrootcert` ask for together; no mode is the driver's default, `prefer`.
fn check(mode: Option<&str>, root: Option<String>) -> Result<(Option<SslMode>, Check), StoreError> {
    let roots = root.map(|root| if root == SYSTEM { Roots::System } else { Roots::File(root.into()) });
    let trusted = |roots: Option<Roots>| roots.unwrap_or(Roots::System);
    let weak = |mode: &str| wrong(format!("sslrootcert has no effect with sslmode={mode}: use verify-full"));
    let require = Some(SslMode::Require);
    match (mode, roots) {
        (None, None) => Ok((None, Check::Nothing)),
        (None, Some(_)) => Err(weak("prefer")),
        (Some("prefer"), None) => Ok((Some(SslMode::Prefer), Check::Nothing)),
        (Some("prefer"), Some(_)) => Err(weak("prefer")),
        (Some("disable"), _) => Ok((Some(SslMode::Disable), Check::Nothing)),
        (Some("require"), None) => Ok((require, Check::Nothing)),
        // Whoever is certified for any host at all would do.
        (Some(mode @ ("require" | "verify-ca")), Some(Roots::System)) => Err(wrong(format!(
            "sslrootcert=system with sslmode={mode} would trust anybody with a certificate: use verify-full"
        ))),
        // As in libpq: with authorities at hand, `require` asks for one's signature.
        (Some("require" | "verify-ca"), Some(roots)) => Ok((require, Check::Chain(roots))),
        (Some("verify-ca"), None) => Err(wrong("sslmode=verify-ca needs sslrootcert with it")),
        (Some("verify-full"), roots) => Ok((require, Check::ChainAndName(trusted(roots)))),
        (Some(mode), _) => Err(wrong(format!(
            "sslmode={mode} is not supported: use disable, prefer, require, verify-ca or verify-full"
        ))),
    }
}

fn wrong(problem: impl Into<String>) -> StoreError {
    StoreError::Settings(problem.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str) -> String {
        let read = read(&format!("postgres://u:p@db/x?{query}"));
        read.err().unwrap_or_else(|| panic!("{query} was taken")).to_string()
    }

    fn taken(query: &str) -> (SslMode, Wanted) {
        let address = read(&format!("postgres://u:p@db/x?{query}")).unwrap_or_else(|error| panic!("{error}"));
        (address.driver.get_ssl_mode(), address.tls)
    }

    #[test]
    fn modes_mean_what_they_mean_to_libpq() {
        let file = || Roots::File("/ca.pem".into());
        for (query, mode, check) in [
            ("connect_timeout=3", SslMode::Prefer, Check::Nothing),
            ("sslmode=disable&sslrootcert=/ca.pem", SslMode::Disable, Check::Nothing),
            ("sslmode=prefer", SslMode::Prefer, Check::Nothing),
            ("sslmode=require", SslMode::Require, Check::Nothing),
            ("sslmode=require&sslrootcert=/ca.pem", SslMode::Require, Check::Chain(file())),
            ("sslmode=verify-ca&sslrootcert=%2Fca.pem", SslMode::Require, Check::Chain(file())),
            ("sslrootcert=/ca.pem&sslmode=verify-full", SslMode::Require, Check::ChainAndName(file())),
            ("sslmode=verify-full", SslMode::Require, Check::ChainAndName(Roots::System)),
            ("sslmode=verify-full&sslrootcert=system", SslMode::Require, Check::ChainAndName(Roots::System)),
        ] {
            assert_eq!(taken(query), (mode, Wanted { check, identity: None }), "{query}");
        }
        let (_, wanted) = taken("sslmode=require&sslcert=/c.pem&sslkey=/k.pem");
        assert_eq!(wanted.identity, Some(("/c.pem".into(), "/k.pem".into())));
    }

    #[test]
    fn what_can_not_be_had_is_refused_by_its_name() {
        for (query, said) in [
            ("sslmode=allow", "sslmode=allow is not supported: use disable, prefer,"),
            ("sslrootcert=/ca.pem", "sslrootcert has no effect with sslmode=prefer: use verify-full"),
            ("sslmode=verify-ca", "sslmode=verify-ca needs sslrootcert"),
            ("sslmode=verify-ca&sslrootcert=system", "use verify-full"),
            ("sslmode=require&sslcert=/c.pem", "sslkey is missing"),
            ("sslmode=require&sslkey=/k.pem", "sslcert is missing"),
            ("sslmode=require&sslmode=disable", "sslmode is there twice"),
            ("sslcrl=/crl.pem", "sslcrl is not supported: of TLS use sslmode,"),
            ("sslpassword=x", "sslpassword is not supported"),
            ("ssl=true", "ssl is not supported"),
            ("nonsense=1", "unknown"),
        ] {
            let refused = refused(query);
            assert!(refused.contains(said), "{query}: {refused}");
        }
    }

    #[test]
    fn the_rest_of_an_address_is_left_to_the_driver() {
        let url = "postgres://u:p%3Fsslmode=x?@db:7/x?application_name=a&sslmode=require&connect_timeout=3";
        let driver = read(url).unwrap_or_else(|error| panic!("{error}")).driver;
        assert_eq!(driver.get_password(), Some("p?sslmode=x?".as_bytes()));
        assert_eq!((driver.get_ports(), driver.get_application_name()), ([7].as_slice(), Some("a")));
        assert_eq!(driver.get_connect_timeout(), Some(&std::time::Duration::from_secs(3)));
        let pairs = read("host=db user=u sslmode=require").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(pairs.driver.get_ssl_mode(), SslMode::Require);
        let socket = read("postgres://u@%2Frun%2Fpostgresql/x?sslmode=require");
        let socket = socket.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(socket.driver.get_ssl_mode(), SslMode::Disable, "no TLS over a socket of this machine");
    }
}
