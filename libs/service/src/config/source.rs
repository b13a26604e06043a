//! Where settings come from: one flat table, filled from the file and overridden by the environment.

use super::{ConfigError, ENV_PREFIX, Problem};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

/// Variables with our prefix that are no settings: the command line's own, and those that a run's process sees
/// (a job may start one of our programs).
const NOT_SETTINGS: [&str; 14] = [
    "CONFIG",
    "ENDPOINTS_FILE",
    "SERVER",
    "TOKEN",
    "CA_FILE",
    "CLIENT_CERTIFICATE",
    "CLIENT_KEY",
    "RUN_ID",
    "SCHEDULED_FOR",
    "ATTEMPT",
    "IDEMPOTENCY_KEY",
    "FENCING_TOKEN",
    "GUARD_KEY",
    "DEADLINE",
];

/// The values that were found and not yet taken, and what is wrong so far.
pub struct Source {
    values: config::Map<String, config::Value>,
    problems: Vec<Problem>,
}

impl Source {
    pub(super) fn open(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let variables = settings_of(environment, &mut problems);
        let mut builder = config::Config::builder();
        if let Some(path) = file {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
            builder = builder.add_source(config::File::from_str(&text, config::FileFormat::Toml));
        }
        let environment = config::Environment::with_prefix("ESCAPEMENT")
            .prefix_separator("_")
            .separator("__")
            .source(Some(variables));
        let values = builder
            .add_source(environment)
            .build()
            .and_then(|built| config::Source::collect(&built))
            .map_err(|error| ConfigError::Malformed(Box::new(error)))?;
        Ok(Self { values, problems })
    }

    /// The value of `name`, or `default` when nothing sets it. A value of the wrong type is remembered as a
    /// problem, and `default` stands in for it until `finish`.
    pub fn take<T: DeserializeOwned>(&mut self, name: &'static str, default: T) -> T {
        let Some(value) = self.values.remove(name) else { return default };
        match T::deserialize(value) {
            Ok(value) => value,
            Err(error) => {
                self.problems.push(Problem::new(name, error.to_string()));
                default
            }
        }
    }

    /// Everything that is wrong: what could not be read, and every name that nothing took.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        let mut unknown: Vec<&String> = self.values.keys().collect();
        unknown.sort();
        let unknown = unknown.into_iter().map(|name| {
            let variable = format!("{ENV_PREFIX}{}", name.to_uppercase());
            Problem::new(name, format!("is no setting of this program (in the environment: {variable})"))
        });
        self.problems.extend(unknown);
        self.problems
    }
}

fn settings_of(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    problems: &mut Vec<Problem>,
) -> HashMap<String, String> {
    let mut settings = HashMap::new();
    for (key, value) in environment {
        let Ok(key) = key.into_string() else { continue };
        let Some(name) = key.strip_prefix(ENV_PREFIX) else { continue };
        if NOT_SETTINGS.contains(&name) || is_service_link(name) {
            continue;
        }
        match value.into_string() {
            Ok(value) => drop(settings.insert(key, value)),
            Err(_) => problems.push(Problem::new(name.to_lowercase(), format!("{key} is not UTF-8"))),
        }
    }
    settings
}

/// True for the variables that Kubernetes sets in every pod for a service named `escapement-…`, for example
/// `REGISTRY_SERVICE_HOST` or `REGISTRY_PORT_8080_TCP_ADDR`.
fn is_service_link(name: &str) -> bool {
    let numbered = |rest: &str| rest.split('_').next().is_some_and(|port| port.parse::<u16>().is_ok());
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.split_once("_PORT_").is_some_and(|(_, rest)| numbered(rest))
}

/// A list of texts: an array in the file, separated by commas in the environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct List(pub Vec<String>);

impl std::ops::Deref for List {
    type Target = [String];
    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<const N: usize> From<[&str; N]> for List {
    fn from(items: [&str; N]) -> Self {
        Self(items.iter().map(|item| (*item).to_owned()).collect())
    }
}

impl<'de> serde::Deserialize<'de> for List {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged, expecting = "use an array of texts, or texts separated by commas")]
        enum Written {
            Array(Vec<String>),
            Text(String),
        }
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::Array(items) => items,
            Written::Text(text) => {
                text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
            }
        }))
    }
}
