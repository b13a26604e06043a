//! Which program a job would start, and whether it may. Decides; starts nothing.
//!
//! The allow list judges the program's absolute path, found as the kernel would find it. It restricts which
//! programs start, not what they do with their arguments: allowing a shell or an interpreter allows everything.

use model::job::Exec;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// What a job's shell line is given to.
pub const SHELL: &str = "/bin/sh";

/// The user that processes run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// Its group's number.
    pub gid: u32,
    /// Its home folder.
    pub home: String,
}

/// A program's absolute path, in which `*` stands for any part of a name between slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

/// What jobs may start.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Anything at all.
    pub allowed: bool,
    /// These programs; empty is any.
    pub argv_allow: Vec<Pattern>,
}

/// Why a program is not started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Processes are off.
    #[error("this agent starts no processes: set exec_allowed in its configuration to allow it")]
    Off,
    /// Not on the list.
    #[error("this agent may not start {}: add it to exec_argv_allow in its configuration to allow it", .0.display())]
    NotListed(PathBuf),
    /// A path that means another place than it shows.
    #[error("{}: leave '..' out of the path of a program that exec_argv_allow is to judge", .0.display())]
    Dots(PathBuf),
    /// The dynamic loader would run code that is on no list.
    #[error("the variable {0} could load other code into the program: exec_argv_allow excludes it")]
    Loader(String),
    /// A variable that no environment can have.
    #[error("{0:?} is no name of an environment variable")]
    Variable(String),
    /// The folder is missing.
    #[error("the working directory {} is not there", .0.display())]
    NoFolder(PathBuf),
    /// The program is missing.
    #[error("the program {program:?} was not found in {searched}")]
    NotFound {
        /// As the job names it.
        program: String,
        /// The folders.
        searched: String,
    },
    /// The file is there and can't be started.
    #[error("{} is no program that can be started: it is no file, or may not be executed", .0.display())]
    NotExecutable(PathBuf),
    /// Nothing to start.
    #[error("the job names no program")]
    Nothing,
}

impl Pattern {
    /// None for what is no absolute path.
    pub fn new(text: &str) -> Option<Self> {
        let path = Path::new(text);
        (path.is_absolute() && !has_dots(path)).then(|| Self(text.to_owned()))
    }

    /// True when it names this program.
    pub fn matches(&self, program: &Path) -> bool {
        let Some(program) = program.to_str() else { return false };
        let (mut patterns, mut names) = (self.0.split('/'), program.split('/'));
        loop {
            match (patterns.next(), names.next()) {
                (None, None) => return true,
                (Some(pattern), Some(name)) if name_matches(pattern, name) => {}
                _ => return false,
            }
        }
    }
}

/// The pieces between the stars must come in order, the first at the start and the last at the end.
fn name_matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*').filter(|piece| !piece.is_empty()) {
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

/// Finds the program that `exec` would start, from `folder` and along `path`, and judges it.
///
/// # Errors
/// The [`Refusal`] to report.
pub fn program(exec: &Exec, rules: &Rules, folder: &Path, path: &str) -> Result<PathBuf, Refusal> {
    if !rules.allowed {
        return Err(Refusal::Off);
    }
    for name in exec.env.keys() {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Refusal::Variable(name.clone()));
        }
        if name.starts_with("LD_") && !rules.argv_allow.is_empty() {
            return Err(Refusal::Loader(name.clone()));
        }
    }
    if !folder.is_dir() {
        return Err(Refusal::NoFolder(folder.to_owned()));
    }
    let name = match exec.argv.first() {
        _ if !exec.shell.is_empty() => SHELL,
        Some(name) if !name.is_empty() => name,
        _ => return Err(Refusal::Nothing),
    };
    let program = find(name, folder, path)?;
    if !rules.argv_allow.is_empty() {
        if has_dots(&program) {
            return Err(Refusal::Dots(program));
        }
        if !rules.argv_allow.iter().any(|pattern| pattern.matches(&program)) {
            return Err(Refusal::NotListed(program));
        }
    }
    if is_executable(&program) { Ok(program) } else { Err(Refusal::NotExecutable(program)) }
}

fn find(name: &str, folder: &Path, path: &str) -> Result<PathBuf, Refusal> {
    let not_found = |searched: String| Refusal::NotFound { program: name.to_owned(), searched };
    if name.contains('/') {
        let program = folder.join(name);
        return if program.exists() { Ok(program) } else { Err(not_found(folder.display().to_string())) };
    }
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let mut candidates = folders.map(|folder| Path::new(folder).join(name));
    candidates.find(|candidate| is_executable(candidate)).ok_or_else(|| not_found(path.to_owned()))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn has_dots(path: &Path) -> bool {
    path.components().any(|component| component == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/usr/bin:/bin";

    fn argv(program: &str) -> Exec {
        Exec { argv: vec![program.to_owned()], ..Exec::default() }
    }

    fn only(patterns: &[&str]) -> Rules {
        let argv_allow = patterns.iter().map(|pattern| Pattern::new(pattern).expect("absolute")).collect();
        Rules { allowed: true, argv_allow }
    }

    fn judge(exec: &Exec, rules: &Rules) -> Result<PathBuf, Refusal> {
        program(exec, rules, Path::new("/"), PATH)
    }

    #[test]
    fn nothing_starts_until_it_is_allowed_and_the_text_says_by_which_setting() {
        let refusal = judge(&argv("true"), &Rules::default()).expect_err("off");
        assert!(refusal.to_string().contains("exec_allowed"), "{refusal}");
        assert_eq!(judge(&argv("true"), &only(&[])), Ok("/usr/bin/true".into()));
    }

    #[test]
    fn the_list_judges_the_path_that_was_found() {
        assert!(judge(&argv("true"), &only(&["/usr/bin/true"])).is_ok());
        assert!(judge(&argv("/usr/bin/true"), &only(&["/usr/bin/tr*"])).is_ok());
        let refusal = judge(&argv("sleep"), &only(&["/usr/bin/true"])).expect_err("not listed");
        assert!(refusal.to_string().contains("exec_argv_allow"), "{refusal}");
        let sneaky = judge(&argv("/usr/lib/../bin/sleep"), &only(&["/usr/lib/*/*/sleep"]));
        assert!(matches!(sneaky, Err(Refusal::Dots(_))), "{sneaky:?}");
    }

    #[test]
    fn a_shell_line_needs_the_shell_on_the_list() {
        let line = Exec { shell: "true".into(), ..Exec::default() };
        assert!(matches!(judge(&line, &only(&["/usr/bin/true"])), Err(Refusal::NotListed(_))));
        assert_eq!(judge(&line, &only(&["/bin/sh"])), Ok("/bin/sh".into()));
    }

    #[test]
    fn the_loader_can_not_be_used_to_get_around_the_list() {
        let mut exec = argv("true");
        exec.env.insert("LD_PRELOAD".into(), "/tmp/evil.so".into());
        assert_eq!(judge(&exec, &only(&["/usr/bin/true"])), Err(Refusal::Loader("LD_PRELOAD".into())));
        assert!(judge(&exec, &only(&[])).is_ok());
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = judge(&argv("no-such-program"), &only(&[])).expect_err("missing").to_string();
        assert!(missing.contains("no-such-program") && missing.contains(PATH), "{missing}");
        assert!(matches!(judge(&argv("/no/such"), &only(&[])), Err(Refusal::NotFound { .. })));
        assert!(matches!(judge(&argv("/etc/passwd"), &only(&[])), Err(Refusal::NotExecutable(_))));
        let folder = program(&argv("true"), &only(&[]), Path::new("/no/such"), PATH);
        assert_eq!(folder, Err(Refusal::NoFolder("/no/such".into())));
        assert_eq!(judge(&Exec::default(), &only(&[])), Err(Refusal::Nothing));
    }

    #[test]
    fn a_star_stays_between_slashes() {
        for (pattern, program, matches) in [
            ("/opt/jobs/*", "/opt/jobs/backup", true),
            ("/opt/jobs/*", "/opt/jobs/old/backup", false),
            ("/opt/*/run-*.sh", "/opt/jobs/run-1.sh", true),
            ("/opt/*/run-*.sh", "/opt/jobs/run-1.py", false),
            ("/opt/a*b*c", "/opt/a1b2c", true),
            ("/opt/a*b*c", "/opt/acb", false),
            ("/opt/a*a", "/opt/a", false),
            ("/opt/backup", "/opt/backup2", false),
        ] {
            let judged = Pattern::new(pattern).expect("absolute").matches(Path::new(program));
            assert_eq!(judged, matches, "{pattern} {program}");
        }
    }

    #[test]
    fn only_absolute_folders_of_the_path_are_searched() {
        let relative = "../".repeat(64) + "usr/bin";
        let found = program(&argv("true"), &only(&[]), Path::new("/"), &relative);
        assert!(matches!(found, Err(Refusal::NotFound { .. })), "{found:?}");
    }

    #[test]
    fn what_is_no_variable_and_no_absolute_path_is_refused() {
        for name in ["", "A=B", "A\0B"] {
            let mut exec = argv("true");
            exec.env.insert(name.into(), String::new());
            assert_eq!(judge(&exec, &only(&[])), Err(Refusal::Variable(name.into())));
        }
        for path in ["bin/true", "*", "/opt/../usr/bin/*"] {
            assert_eq!(Pattern::new(path), None);
        }
    }
}
