//! The data folder and the password of a server: made by its first start, found by later ones.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Postgres, SUPERUSER};
use crate::StackError;
use crate::error::file_error;
use crate::process::ManagedChild;

const INITDB_LIMIT: Duration = Duration::from_secs(60);

impl Postgres {
    /// Makes the data folder. `initdb` works on a folder beside it, renamed when done: one that was cut short is
    /// never taken for data.
    pub(super) async fn init(&self) -> Result<(), StackError> {
        let unfinished = self.dir.join("data.unfinished");
        remove_if_there(&unfinished)?;
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&unfinished)
            .map_err(file_error("creating", &unfinished))?;
        self.give_to_user(&unfinished)?;
        let mut spec = self.spec("initdb", &self.binaries.initdb).arg("--pgdata").arg(&unfinished).args([
            "--username",
            SUPERUSER,
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]);
        if self.options.password {
            // 244 random bits.
            let password = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
            self.write_password(&self.password_file(), &password)?;
            spec = spec.arg("--auth=scram-sha-256").arg("--pwfile").arg(self.password_file());
        } else {
            spec = spec.arg("--auth=trust");
        }
        if !self.options.durable {
            spec = spec.arg("--no-sync");
        }
        let mut initdb = ManagedChild::spawn(&spec)?;
        match initdb.exited_within(INITDB_LIMIT).await? {
            Some(status) if status.success() => {
                let data = self.data();
                std::fs::rename(&unfinished, &data).map_err(file_error("naming", data))
            }
            Some(status) => {
                Err(StackError::Exited { name: "initdb".into(), status, log_tail: initdb.log_tail() })
            }
            None => Err(StackError::NotReady {
                name: "initdb".into(),
                limit: INITDB_LIMIT,
                log_tail: initdb.log_tail(),
            }),
        }
    }

    /// Writes a password into a file that only the server's user (and root) can read.
    pub(super) fn write_password(&self, file: &Path, password: &str) -> Result<(), StackError> {
        remove_if_there(file)?;
        let mut open = std::fs::OpenOptions::new();
        open.write(true).create_new(true).mode(0o600);
        open.open(file)
            .and_then(|mut opened| std::io::Write::write_all(&mut opened, password.as_bytes()))
            .map_err(file_error("writing", file))?;
        self.give_to_user(file)
    }

    pub(super) fn stored_password(&self) -> Result<Option<String>, StackError> {
        let file = self.password_file();
        match std::fs::read_to_string(&file) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(file_error("reading", file)(error)),
        }
    }

    pub(super) fn give_to_user(&self, path: &Path) -> Result<(), StackError> {
        let Some(user) = &self.user else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .map_err(file_error("giving away", path))
    }

    fn password_file(&self) -> PathBuf {
        self.dir.join("password")
    }
}

pub(super) fn remove_if_there(path: &Path) -> Result<(), StackError> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(file_error("removing", path)(error))
        }
        _ => Ok(()),
    }
}
