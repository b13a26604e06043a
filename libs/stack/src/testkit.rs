//! Servers and folders for tests, which leave nothing behind however the test process ends.
//!
//! One PostgreSQL and one etcd per test process, started on first use: with `cargo test` many threads share
//! them, with nextest each test has its own. Statics are never dropped, so the servers end by their death signal
//! ([`crate::process`]), and their folders are removed by a janitor: a shell that waits for its input to
//! end, which happens whichever way the test process goes, kill -9 included.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::StackError;
use crate::error::file_error;
use crate::etcd::{self, Etcd};
use crate::postgres::{self, Postgres};

/// The PostgreSQL of this test process: fast, not durable, no password.
///
/// # Panics
/// When it can't be started: a missing server fails the test.
pub async fn shared_postgres() -> &'static Postgres {
    static SHARED: OnceCell<(Postgres, TempFolder)> = OnceCell::const_new();
    let start = async || {
        let folder = TempFolder::create("postgres")?;
        let server = Postgres::start(folder.path(), postgres::Options::for_tests()).await?;
        Ok::<_, StackError>((server, folder))
    };
    match SHARED.get_or_try_init(start).await {
        Ok((server, _)) => server,
        Err(error) => panic!("no PostgreSQL for tests: {}", chain(&error)),
    }
}

/// The etcd of this test process. Tests that stop or freeze theirs start their own.
///
/// # Panics
/// When it can't be started: a missing server fails the test.
pub async fn shared_etcd() -> &'static Etcd {
    static SHARED: OnceCell<(Etcd, TempFolder)> = OnceCell::const_new();
    let start = async || {
        let folder = TempFolder::create("etcd")?;
        let server = Etcd::start(folder.path(), etcd::Options::for_tests()).await?;
        Ok::<_, StackError>((server, folder))
    };
    match SHARED.get_or_try_init(start).await {
        Ok((server, _)) => server,
        Err(error) => panic!("no etcd for tests: {}", chain(&error)),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// A fresh database, gone with its server.
#[derive(Debug, Clone)]
pub struct TestDatabase {
    name: String,
    url: String,
}

impl TestDatabase {
    /// Creates it, as a copy of `template` if one is given. Nobody may be connected to the template.
    ///
    /// # Errors
    /// [`StackError::Sql`], or what starting `psql` says.
    pub async fn create(server: &Postgres, template: Option<&str>) -> Result<Self, StackError> {
        let name = format!("test_{}", Uuid::new_v4().simple());
        let template = template.unwrap_or("template1");
        server.psql("postgres", &format!("CREATE DATABASE {name} TEMPLATE \"{template}\"")).await?;
        Ok(Self { url: server.url_of(&name), name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// A folder that is removed when dropped, or when this process ends.
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
}

impl TempFolder {
    /// A new, empty folder that other users (PostgreSQL's) can enter.
    ///
    /// # Errors
    /// [`StackError::File`] or, without a shell, [`StackError::Spawn`].
    pub fn create(name: &str) -> Result<Self, StackError> {
        let unique = Uuid::new_v4().simple().to_string();
        let path = std::env::temp_dir().join(format!("escapement-{name}-{}", &unique[..12]));
        // Crash window: told before it exists, so that no moment leaves a folder that nobody removes.
        tell_janitor(&path)?;
        std::fs::create_dir_all(&path).map_err(file_error("creating", &path))?;
        let open_to_all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, open_to_all).map_err(file_error("opening", &path))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // What a dying server still writes may win against this; the janitor comes again.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Reads folders, one a line, until its input ends; then removes them, patiently, because the servers that write
/// there are ending at the same moment.
const JANITOR: &str = r#"
while IFS= read -r folder; do set -- "$@" "$folder"; done
round=0
while [ "$round" -lt 50 ]; do
    rm -rf -- "$@" 2>/dev/null
    left=
    for folder; do [ -e "$folder" ] && left=1; done
    [ -z "$left" ] && [ "$round" -ge 5 ] && exit 0
    round=$((round + 1))
    sleep 0.1
done
"#;

fn tell_janitor(folder: &Path) -> Result<(), StackError> {
    static SHELL: Mutex<Option<Child>> = Mutex::new(None);
    let mut shell = SHELL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let janitor = match shell.take() {
        Some(running) => running,
        None => start_janitor().map_err(|source| StackError::Spawn {
            name: "the janitor of temporary folders".into(),
            program: "/bin/sh".into(),
            source,
        })?,
    };
    let mut input = shell.insert(janitor).stdin.as_ref();
    let told = input
        .as_mut()
        .map_or(Err(std::io::ErrorKind::BrokenPipe.into()), |pipe| writeln!(pipe, "{}", folder.display()));
    told.map_err(file_error("telling the janitor of", folder))
}

fn start_janitor() -> std::io::Result<Child> {
    // Its own group: Ctrl-C in a terminal must not end it before its work.
    Command::new("/bin/sh")
        .args(["-c", JANITOR, "janitor"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()
}
