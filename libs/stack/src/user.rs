//! Whom a server runs as: the launching user, or, because PostgreSQL refuses root, a lesser one.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User};

use crate::StackError;
use crate::error::file_error;

/// A user to drop to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    /// Its name, for messages.
    pub name: String,
    /// User id.
    pub uid: Uid,
    /// Its primary group; no others are kept.
    pub gid: Gid,
}

impl RunAs {
    /// `None` when the launcher is not root: then the server runs as the launcher does.
    ///
    /// # Errors
    /// [`StackError::NoUser`] when root has nobody to drop to.
    pub fn unprivileged() -> Result<Option<Self>, StackError> {
        if !nix::unistd::geteuid().is_root() {
            return Ok(None);
        }
        let known = ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
        let user = known.ok_or(StackError::NoUser)?;
        Ok(Some(Self { name: user.name, uid: user.uid, gid: user.gid }))
    }

    /// Fails when `dir` (which exists) or a folder on the way keeps this user out, as a home with mode 700 does.
    ///
    /// # Errors
    /// [`StackError::Unreachable`] with the closed folder.
    pub fn check_reach(&self, dir: &Path) -> Result<(), StackError> {
        match self.first_closed_folder(dir)? {
            None => Ok(()),
            Some(closed) => {
                Err(StackError::Unreachable { user: self.name.clone(), dir: dir.to_owned(), closed })
            }
        }
    }

    fn first_closed_folder(&self, dir: &Path) -> Result<Option<PathBuf>, StackError> {
        let absolute = dir.canonicalize().map_err(file_error("resolving", dir))?;
        for folder in absolute.ancestors() {
            let about = folder.metadata().map_err(file_error("reading", folder))?;
            if !self.may_enter(about.uid(), about.gid(), about.mode()) {
                return Ok(Some(folder.to_owned()));
            }
        }
        Ok(None)
    }

    /// The kernel's rule: the first class that applies decides, even if a later one would allow it.
    fn may_enter(&self, owner: u32, group: u32, mode: u32) -> bool {
        let execute = if owner == self.uid.as_raw() {
            0o100
        } else if group == self.gid.as_raw() {
            0o010
        } else {
            0o001
        };
        mode & execute != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_home_keeps_a_stranger_out_but_not_its_owner() {
        let user = RunAs { name: "postgres".into(), uid: Uid::from_raw(101), gid: Gid::from_raw(104) };
        assert!(!user.may_enter(0, 0, 0o40700));
        assert!(user.may_enter(101, 0, 0o40700));
        assert!(user.may_enter(0, 0, 0o40755));
        assert!(user.may_enter(0, 104, 0o40750));
        assert!(!user.may_enter(101, 104, 0o40055));
    }

    #[test]
    fn the_closed_folder_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let root = crate::testkit::TempFolder::create("closed").expect("a folder");
        let inner = root.path().join("home/data");
        std::fs::create_dir_all(&inner).expect("folders");
        let closed = root.path().join("home").canonicalize().expect("exists");
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("own folder");
        let stranger = RunAs { name: "stranger".into(), uid: Uid::from_raw(4242), gid: Gid::from_raw(4242) };
        let error = stranger.check_reach(&inner).expect_err("the home is closed");
        assert!(matches!(error, StackError::Unreachable { closed: named, .. } if named == closed));
    }
}
