//! One stack a folder: an advisory lock on a file that names the process. The kernel frees it when that process
//! ends, however it ends; a pid alone could be a stranger's by then.

use crate::{StackError, error::file_error};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

const LOCK_FILE: &str = "lock";

/// Held for as long as the stack runs.
pub(super) struct DataLock(#[expect(dead_code, reason = "held, not read")] Flock<File>);

impl DataLock {
    /// Takes the lock of `data`.
    pub(super) fn take(data: &Path) -> Result<Self, StackError> {
        let path = data.join(LOCK_FILE);
        match Flock::lock(open(data)?, FlockArg::LockExclusiveNonblock) {
            Ok(mut lock) => {
                lock.set_len(0).map_err(file_error("writing", &path))?;
                write!(lock, "{}", std::process::id()).map_err(file_error("writing", &path))?;
                Ok(Self(lock))
            }
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Err(StackError::InUse { data: data.to_owned() }),
            Err((_, errno)) => Err(file_error("locking", path)(errno.into())),
        }
    }
}

/// The process whose stack runs in `data`, if one does.
///
/// # Errors
/// [`StackError::File`] when the lock can't be read.
pub fn running(data: &Path) -> Result<Option<u32>, StackError> {
    let path = data.join(LOCK_FILE);
    if !path.exists() {
        return Ok(None);
    }
    match Flock::lock(open(data)?, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(None),
        Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(file_error("reading", &path))?;
            let invalid = |_| std::io::Error::from(std::io::ErrorKind::InvalidData);
            text.parse().map(Some).map_err(invalid).map_err(file_error("reading", &path))
        }
        Err((_, errno)) => Err(file_error("locking", path)(errno.into())),
    }
}

fn open(data: &Path) -> Result<File, StackError> {
    let path = data.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(&path).map_err(file_error("opening", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_used_by_one_stack_at_a_time() {
        let folder = crate::testkit::TempFolder::create("lock").expect("a folder");
        assert_eq!(running(folder.path()).expect("readable"), None);
        let lock = DataLock::take(folder.path()).expect("free");
        assert_eq!(running(folder.path()).expect("readable"), Some(std::process::id()));
        assert!(matches!(DataLock::take(folder.path()), Err(StackError::InUse { .. })));
        drop(lock);
        assert_eq!(running(folder.path()).expect("readable"), None);
    }
}
