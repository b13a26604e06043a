//! What can go wrong with etcd, and the one table that says what each of its errors means.

use std::path::PathBuf;
use std::time::Duration;

use etcd_client::Error as EtcdError;
use tonic::Code;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// The configuration can't work.
    #[error("etcd configuration: {field} {problem}")]
    Config { field: &'static str, problem: String },
    /// No answer that can be trusted: the request may or may not have been carried out. Trying again may help.
    #[error("etcd is in doubt while {action}")]
    Doubt { action: &'static str, source: Box<EtcdError> },
    /// A member and we don't trust each other. Trying again may help, once files were changed.
    #[error("no TLS to etcd while {action}: {problem}")]
    Tls { action: &'static str, problem: &'static str, source: Box<EtcdError> },
    /// A file of TLS can't be read. Trying again may help: it may be about to be replaced.
    #[error("cannot read {path}, which TLS to etcd needs")]
    File { path: PathBuf, source: std::io::Error },
    /// As [`ElectionError::Doubt`], by silence.
    #[error("etcd did not answer within {limit:?} while {action}")]
    Silent { action: &'static str, limit: Duration },
    /// etcd will not do this, however often it is asked.
    #[error("etcd refused {action}")]
    Refused { action: &'static str, source: Box<EtcdError> },
    /// The lease expired or was revoked, and what hung on it is gone.
    #[error("the lease is gone, noticed while {action}")]
    LeaseGone { action: &'static str },
    /// A key holds what this crate did not write.
    #[error("the value of {key} is not readable")]
    Corrupt { key: String, source: serde_json::Error },
    /// A value could not be written as JSON.
    #[error("a value for {key} could not be encoded")]
    Encode { key: String, source: serde_json::Error },
    /// etcd answered something else than was asked.
    #[error("etcd's answer to {action} lacks {lacking}")]
    Answer { action: &'static str, lacking: &'static str },
}

impl ElectionError {
    /// Whether trying again, perhaps on another endpoint, may help.
    pub const fn is_doubt(&self) -> bool {
        matches!(
            self,
            Self::Doubt { .. }
                | Self::Tls { .. }
                | Self::File { .. }
                | Self::Silent { .. }
                | Self::Answer { .. }
        )
    }

    pub(crate) fn from_etcd(action: &'static str, error: EtcdError) -> Self {
        if let Some(problem) = crate::tls::explain(&error) {
            return Self::Tls { action, problem, source: Box::new(error) };
        }
        match meaning(&error) {
            Meaning::LeaseGone => Self::LeaseGone { action },
            Meaning::Refused => Self::Refused { action, source: Box::new(error) },
            Meaning::Doubt => Self::Doubt { action, source: Box::new(error) },
        }
    }
}

/// What an error of etcd means for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    LeaseGone,
    Refused,
    Doubt,
}

fn meaning(error: &EtcdError) -> Meaning {
    match error {
        EtcdError::GRpcStatus(status) => status_meaning(status.code(), status.message()),
        // The client's own words for a keep-alive that answers with a TTL of zero.
        EtcdError::LeaseKeepAliveError(text) if text.contains("lease not found") => Meaning::LeaseGone,
        EtcdError::InvalidArgs(_) | EtcdError::InvalidUri(_) | EtcdError::InvalidMetadataValue(_) => {
            Meaning::Refused
        }
        _ => Meaning::Doubt,
    }
}

fn status_meaning(code: Code, message: &str) -> Meaning {
    match code {
        // "etcdserver: requested lease not found"
        Code::NotFound if message.contains("lease not found") => Meaning::LeaseGone,
        // The user's role lacks this prefix.
        Code::PermissionDenied => Meaning::Refused,
        // "authentication failed, invalid user ID or password", or a malformed request.
        Code::InvalidArgument => Meaning::Refused,
        // "authentication is not enabled", asked with a user.
        Code::FailedPrecondition => Meaning::Refused,
        Code::Unimplemented => Meaning::Refused,
        // Unavailable, DeadlineExceeded, Unknown, Cancelled: the endpoint or its quorum is in trouble.
        // Unauthenticated: the token expired, a new connection gets a new one.
        // ResourceExhausted: the space quota, which an operator lifts.
        // OutOfRange: a watch began before a compaction; it begins anew.
        _ => Meaning::Doubt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_lease_is_told_from_other_missing_things() {
        assert_eq!(
            status_meaning(Code::NotFound, "etcdserver: requested lease not found"),
            Meaning::LeaseGone
        );
        assert_eq!(status_meaning(Code::NotFound, "etcdserver: member not found"), Meaning::Doubt);
        assert_eq!(meaning(&EtcdError::LeaseKeepAliveError("lease not found".into())), Meaning::LeaseGone);
    }

    #[test]
    fn lasting_refusals_are_told_from_passing_trouble() {
        assert_eq!(status_meaning(Code::PermissionDenied, "etcdserver: permission denied"), Meaning::Refused);
        assert_eq!(status_meaning(Code::Unavailable, "etcdserver: no leader"), Meaning::Doubt);
        assert_eq!(status_meaning(Code::Unauthenticated, "etcdserver: invalid auth token"), Meaning::Doubt);
        assert_eq!(meaning(&EtcdError::LeaseKeepAliveError("channel closed".into())), Meaning::Doubt);
    }
}
