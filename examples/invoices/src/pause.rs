//! A pause that the play puts into the middle of a run, so that a freeze always meets the same spot: files in a
//! folder, which both processes see.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The folder.
#[derive(Debug, Clone)]
pub struct Pause(PathBuf);

impl Pause {
    pub const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The work of `job` has come to the pause: says so, and waits for [`Pause::go`].
    pub async fn hold(&self, job: &str) -> io::Result<()> {
        std::fs::write(self.0.join(format!("{job}.holds")), "")?;
        while !self.0.join("go").exists() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// True once the work of `job` holds.
    pub fn holds(&self, job: &str) -> bool {
        self.0.join(format!("{job}.holds")).exists()
    }

    /// Ends the pause.
    pub fn go(&self) -> io::Result<()> {
        std::fs::write(self.0.join("go"), "")
    }

    /// The work of `job` has ended, with all that it wanted to write or refused.
    pub fn tell_end(&self, job: &str, whole: bool) -> io::Result<()> {
        // Renamed, so that a reader never sees half of it.
        let (partial, end) = (self.0.join(format!("{job}.partial")), self.0.join(format!("{job}.end")));
        std::fs::write(&partial, if whole { "whole" } else { "refused" })?;
        std::fs::rename(partial, end)
    }

    /// How the work of `job` has ended, once it has: true when it wrote all that it wanted.
    pub fn end(&self, job: &str) -> Option<bool> {
        std::fs::read_to_string(self.0.join(format!("{job}.end"))).ok().map(|how| how == "whole")
    }
}
