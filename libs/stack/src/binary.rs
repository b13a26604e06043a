//! Finds the servers' programs: PATH first, then where Debian keeps PostgreSQL's.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::StackError;

const DEBIAN_POSTGRES: &str = "/usr/lib/postgresql";

/// PostgreSQL's programs, all from one installation.
#[derive(Debug, Clone)]
pub struct PostgresBinaries {
    /// The server.
    pub postgres: PathBuf,
    /// Creates a data folder.
    pub initdb: PathBuf,
    /// The command line client.
    pub psql: PathBuf,
}

/// The etcd server.
///
/// # Errors
/// [`StackError::BinaryMissing`] with the package to install.
pub fn etcd() -> Result<PathBuf, StackError> {
    find_in(&path_folders(), "etcd").ok_or(StackError::BinaryMissing {
        binary: "etcd",
        elsewhere: "anywhere else",
        package: "etcd-server",
    })
}

/// PostgreSQL's programs: the server that PATH names, else Debian's newest, and what lies beside it. (Debian's
/// `psql` in PATH is a wrapper that looks for the system's own clusters.)
///
/// # Errors
/// [`StackError::BinaryMissing`] with the package to install.
pub fn postgres() -> Result<PostgresBinaries, StackError> {
    let mut folders = path_folders();
    folders.extend(versions_newest_first(Path::new(DEBIAN_POSTGRES)));
    let missing =
        |binary| StackError::BinaryMissing { binary, elsewhere: DEBIAN_POSTGRES, package: "postgresql" };
    let found = find_in(&folders, "postgres").ok_or(missing("postgres"))?;
    let postgres = found.canonicalize().unwrap_or(found);
    let beside: Vec<PathBuf> = postgres.parent().map(Path::to_owned).into_iter().chain(folders).collect();
    Ok(PostgresBinaries {
        initdb: find_in(&beside, "initdb").ok_or(missing("initdb"))?,
        psql: find_in(&beside, "psql").ok_or(missing("psql"))?,
        postgres,
    })
}

fn path_folders() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

fn find_in(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// The `bin` folders below `root/<version>`, by number, so that 15 comes before 9.6.
fn versions_newest_first(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .map(|path| (major(path.file_name().unwrap_or_default()), path.join("bin")))
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, bin)| bin).collect()
}

fn major(folder: &OsStr) -> u32 {
    let text = folder.to_string_lossy();
    text.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let root = crate::testkit::TempFolder::create("versions").expect("a folder");
        for version in ["9.6", "15", "8.4"] {
            std::fs::create_dir_all(root.path().join(version).join("bin")).expect("a version");
        }
        let bins = versions_newest_first(root.path());
        let expected: Vec<PathBuf> =
            ["15", "9.6", "8.4"].iter().map(|v| root.path().join(v).join("bin")).collect();
        assert_eq!(bins, expected);
    }

    #[test]
    fn a_program_that_is_nowhere_is_not_found() {
        assert_eq!(find_in(&path_folders(), "escapement-no-such-program"), None);
    }

    #[test]
    fn the_error_names_the_package() {
        let error = StackError::BinaryMissing { binary: "etcd", elsewhere: "x", package: "etcd-server" };
        assert!(error.to_string().contains("install the Debian package etcd-server"));
    }

    #[test]
    fn client_and_server_come_from_one_installation() {
        let found = postgres().expect("PostgreSQL is installed");
        assert_eq!(found.psql.parent(), found.postgres.parent());
    }
}
