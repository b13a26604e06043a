//! A document of `escapement apply`, with its fields in the order in which people read them.

use chrono::DateTime;
use model::policy::{DstFold, DstGap};
use schedule::{Schedule, Spec};
use serde::Serialize;
use std::collections::BTreeMap;

/// What every job of an import gets.
#[derive(Debug, Clone, Default)]
pub struct Common {
    /// Before each name.
    pub prefix: String,
    /// For what names no timezone of its own.
    pub timezone: Option<String>,
    pub queue: Option<String>,
    /// Channels that are told of a missing success.
    pub channels: Vec<String>,
    pub labels: BTreeMap<String, String>,
}

/// `kind: Job`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Written above the document.
    #[serde(skip)]
    pub comments: Vec<String>,
    pub kind: Kind,
    pub name: String,
    pub schedule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Misfire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert: Option<Alert>,
    pub run: Run,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum Kind {
    #[default]
    Job,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Misfire {
    pub policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    pub max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_max: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    pub channels: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Run {
    pub exec: Exec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exec {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
}

impl Document {
    /// With what every job of the import gets.
    pub fn new(common: &Common) -> Self {
        Self {
            queue: common.queue.clone(),
            labels: common.labels.clone(),
            alert: (!common.channels.is_empty()).then(|| Alert { channels: common.channels.clone() }),
            ..Self::default()
        }
    }

    /// What is wrong with its schedule or its timezone, as the registry would say.
    pub fn wrong(&self) -> Option<String> {
        let spec = Spec {
            expression: &self.schedule,
            timezone: self.timezone.as_deref().unwrap_or("UTC"),
            dst_gap: DstGap::RunAfter,
            dst_fold: DstFold::First,
            seed: &self.name,
            anchor: DateTime::UNIX_EPOCH,
        };
        let errors = Schedule::parse(&spec).err()?;
        Some(errors.iter().map(|error| error.message.as_str()).collect::<Vec<_>>().join("; "))
    }

    /// Its YAML, its comments above it.
    ///
    /// # Errors
    /// None is known: its fields are texts and numbers.
    pub fn to_yaml(&self) -> Result<String, serde_yaml_ng::Error> {
        let comments: String = self.comments.iter().map(|comment| format!("# {comment}\n")).collect();
        Ok(comments + &serde_yaml_ng::to_string(self)?)
    }
}
