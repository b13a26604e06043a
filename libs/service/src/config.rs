//! Settings: one TOML file, `ESCAPEMENT_…` over it, defaults under it.
//!
//! A service declares its own settings once, with [`settings!`](crate::settings), which gives the struct, its
//! defaults and its part of `--help`. [`load`] reads them together with [`Common`] from one flat list of names.
//! Invariant: whatever is wrong is reported whole, each problem with the name of its setting, and a name that
//! nothing reads is an error. Deliberately not here: reloading while running.

mod common;
mod source;

pub use common::{Common, LogFormat, NoSettings};
pub use source::{List, Source};

use secrecy::SecretString;
use std::path::{Path, PathBuf};

/// The prefix of environment variables that are settings.
pub const ENV_PREFIX: &str = "ESCAPEMENT_";

/// One setting, for `--help`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file; upper-cased and prefixed, in the environment.
    pub name: &'static str,
    /// What it does, with its unit.
    pub about: String,
    /// The value when nothing sets it.
    pub default: String,
}

impl Setting {
    /// The environment variable that overrides the file.
    pub fn variable(&self) -> String {
        format!("{ENV_PREFIX}{}", self.name.to_uppercase())
    }
}

/// A group of settings; implemented by [`settings!`](crate::settings).
pub trait Settings: Default + Sized {
    /// Every setting of the group, in the order of declaration.
    fn describe() -> Vec<Setting>;

    /// Takes the group's settings out of `source`, which remembers what is wrong with them.
    fn read(source: &mut Source) -> Self;
}

/// The checks that a group's types can't express: ranges, and relations between settings.
pub trait Validate {
    /// Every problem of a service's settings, given the ones that all services share.
    fn validate(&self, common: &Common) -> Vec<Problem>;
}

/// One thing wrong with one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The setting's name.
    pub setting: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    /// A problem of `setting`.
    pub fn new(setting: impl Into<String>, message: impl Into<String>) -> Self {
        Self { setting: setting.into(), message: message.into() }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.setting, self.message)
    }
}

/// Why there is no configuration; each ends the process with exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("cannot read the configuration file {path}")]
    File {
        /// As given.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// File or environment can't be understood at all.
    #[error("cannot understand the configuration")]
    Malformed(#[source] Box<::config::ConfigError>),
    /// Settings with wrong values, unknown ones included.
    #[error("{}", listed(.0))]
    Invalid(Vec<Problem>),
}

fn listed(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    format!("{} wrong in the configuration:{}", counted(problems.len()), lines.concat())
}

fn counted(count: usize) -> String {
    if count == 1 { "1 setting is".to_owned() } else { format!("{count} settings are") }
}

/// Reads `file`, the environment over it and the defaults under it, and checks the whole.
///
/// # Errors
/// [`ConfigError`] when the file can't be read or parsed, and with every wrong or unknown setting.
pub fn load<T: Settings + Validate>(file: Option<&Path>) -> Result<(Common, T), ConfigError> {
    load_from(file, std::env::vars_os())
}

/// [`load`] with the environment as an argument.
///
/// # Errors
/// As [`load`].
pub fn load_from<T: Settings + Validate>(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> Result<(Common, T), ConfigError> {
    let mut source = Source::open(file, environment)?;
    let mut common = Common::read(&mut source);
    let service = T::read(&mut source);
    let mut problems = source.finish();
    if problems.is_empty() {
        problems.extend(common.read_secret_files());
        problems.extend(common.problems());
        problems.extend(service.validate(&common));
    }
    if problems.is_empty() { Ok((common, service)) } else { Err(ConfigError::Invalid(problems)) }
}

/// The value of a secret setting that may also be named by a file, without the file's trailing line ends.
///
/// # Errors
/// A [`Problem`] of `setting` when both are set, or the file can't be read or is empty.
pub fn secret(
    setting: &str,
    value: Option<SecretString>,
    file: Option<&Path>,
) -> Result<Option<SecretString>, Problem> {
    match (value, file) {
        (Some(_), Some(_)) => {
            Err(Problem::new(setting, format!("is set together with {setting}_file: use one of them")))
        }
        (value, None) => Ok(value),
        (None, Some(path)) => {
            let named = format!("{setting}_file");
            let text = std::fs::read_to_string(path)
                .map_err(|error| Problem::new(&named, format!("cannot read {}: {error}", path.display())))?;
            let text = text.trim_end_matches(['\r', '\n']);
            if text.is_empty() {
                return Err(Problem::new(&named, format!("{} is empty", path.display())));
            }
            Ok(Some(text.into()))
        }
    }
}

/// Declares a group of settings: a struct with public fields, its defaults, and its part of `--help`.
///
/// ```
/// # use escapement_service as service;
/// service::settings! {
///     /// What the planner can be told.
///     pub struct Planner {
///         /// Plans this far ahead, in milliseconds.
///         lookahead_ms: u64 = 60_000,
///     }
/// }
/// assert_eq!(Planner::default().lookahead_ms, 60_000);
/// ```
#[macro_export]
macro_rules! settings {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        $vis struct $name { $($(#[doc = $doc])+ pub $field: $type),+ }

        impl Default for $name {
            fn default() -> Self { Self { $($field: $default),+ } }
        }

        impl $crate::config::Settings for $name {
            fn describe() -> Vec<$crate::config::Setting> {
                let default = Self::default();
                vec![$($crate::config::Setting {
                    name: stringify!($field),
                    about: concat!($($doc),+).trim().to_owned(),
                    default: format!("{:?}", default.$field),
                }),+]
            }

            fn read(source: &mut $crate::config::Source) -> Self {
                let default = Self::default();
                Self { $($field: source.take(stringify!($field), default.$field)),+ }
            }
        }
    };
}

#[cfg(test)]
mod tests;
