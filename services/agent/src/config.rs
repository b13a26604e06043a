//! What the agent can be told. What jobs may do on its machine is off until it is allowed here.

use crate::allow::{Pattern, User};
use secrecy::SecretString;
use service::config::{Common, List, Problem, Validate, secret};
use std::path::{Path, PathBuf};
use worker::{OUTPUT_MAX_BYTES, SLOTS_MAX};

service::settings! {
    /// The agent's own settings.
    pub struct AgentConfig {
        /// Addresses of the dispatchers, http://host:port; give all of them, so that runs survive the end of one.
        dispatchers: List = List::default(),
        /// A file with the certificate, in PEM, of the authority that signs the dispatchers' certificates; needed
        /// for https.
        dispatcher_ca_file: Option<PathBuf> = None,
        /// A file with the certificate, in PEM, that the agent shows to dispatchers that ask for one.
        dispatcher_client_certificate_file: Option<PathBuf> = None,
        /// A file with that certificate's key, in PEM.
        dispatcher_client_key_file: Option<PathBuf> = None,
        /// A token of role worker.
        worker_token: Option<SecretString> = None,
        /// A file with the value of worker_token.
        worker_token_file: Option<PathBuf> = None,
        /// Queues to take runs from.
        queues: List = List::from(["default"]),
        /// Runs at a time.
        slots: usize = 16,
        /// Whether jobs may start processes on this machine.
        exec_allowed: bool = false,
        /// Programs that jobs may start, as absolute paths; '*' stands for any part of a name between slashes.
        /// Empty allows any. A job's shell line needs /bin/sh here, which allows any again.
        exec_argv_allow: List = List::default(),
        /// The user that processes run as; needs an agent that runs as root. The agent's own when unset.
        exec_user: Option<String> = None,
        /// Whether jobs may call addresses of this machine itself.
        http_allow_loopback: bool = false,
        /// Whether jobs may call private addresses: 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7.
        http_allow_private: bool = false,
        /// Whether jobs may call link-local addresses, where clouds answer with credentials.
        http_allow_link_local: bool = false,
        /// The most that is read of an answer, in bytes.
        http_response_max_bytes: usize = 1_048_576,
        /// How much of the end of a run's output is kept, in bytes, 4,096 at most.
        output_max_bytes: usize = OUTPUT_MAX_BYTES,
    }
}

impl AgentConfig {
    /// The token, from whichever setting has it.
    ///
    /// # Errors
    /// A [`Problem`] when none has, both have, or the file can't be read.
    pub fn token(&self) -> Result<SecretString, Problem> {
        secret("worker_token", self.worker_token.clone(), self.worker_token_file.as_deref())?
            .ok_or_else(|| Problem::new("worker_token", "is missing: give a token of role worker"))
    }

    /// The certificate of the dispatchers' authority, if one is set.
    ///
    /// # Errors
    /// A [`Problem`] when the file can't be read.
    pub fn dispatcher_ca(&self) -> Result<Option<Vec<u8>>, Problem> {
        self.dispatcher_ca_file.as_deref().map(|path| pem("dispatcher_ca_file", path)).transpose()
    }

    /// The certificate that is shown to dispatchers, and its key, if they are set.
    ///
    /// # Errors
    /// A [`Problem`] when one is set without the other, or a file can't be read.
    pub fn dispatcher_identity(&self) -> Result<Option<Identity>, Problem> {
        const CERTIFICATE: &str = "dispatcher_client_certificate_file";
        const KEY: &str = "dispatcher_client_key_file";
        match (&self.dispatcher_client_certificate_file, &self.dispatcher_client_key_file) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                Ok(Some(Identity { certificate: pem(CERTIFICATE, certificate)?, key: pem(KEY, key)? }))
            }
            (None, Some(_)) => {
                Err(Problem::new(CERTIFICATE, format!("is missing, and {KEY} is set: give both")))
            }
            (Some(_), None) => {
                Err(Problem::new(KEY, format!("is missing, and {CERTIFICATE} is set: give both")))
            }
        }
    }

    /// The programs that jobs may start.
    ///
    /// # Errors
    /// A [`Problem`] with the first that is no absolute path.
    pub fn argv_allow(&self) -> Result<Vec<Pattern>, Problem> {
        let read = |text: &String| {
            Pattern::new(text).ok_or_else(|| {
                Problem::new("exec_argv_allow", format!("{text:?}: use an absolute path without '..'"))
            })
        };
        self.exec_argv_allow.iter().map(read).collect()
    }

    /// The user that processes run as, if it isn't the agent's own.
    ///
    /// # Errors
    /// A [`Problem`] when there is no such user, or the agent may not become it.
    pub fn user(&self) -> Result<Option<User>, Problem> {
        let Some(name) = &self.exec_user else { return Ok(None) };
        let problem = |message: String| Problem::new("exec_user", message);
        if !nix::unistd::geteuid().is_root() {
            return Err(problem(format!("{name:?}: only an agent that runs as root can change the user")));
        }
        match nix::unistd::User::from_name(name) {
            Ok(Some(user)) => Ok(Some(User {
                uid: user.uid.as_raw(),
                gid: user.gid.as_raw(),
                home: user.dir.to_string_lossy().into_owned(),
            })),
            Ok(None) => Err(problem(format!("{name:?}: this machine has no such user"))),
            Err(error) => Err(problem(format!("{name:?}: cannot look it up: {error}"))),
        }
    }
}

/// What the agent shows to dispatchers, in PEM. Deliberately without `Debug`: the key is in it.
pub struct Identity {
    /// The certificate, with those between it and its authority after it.
    pub certificate: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

fn pem(setting: &str, path: &Path) -> Result<Vec<u8>, Problem> {
    std::fs::read(path)
        .map_err(|error| Problem::new(setting, format!("cannot read {}: {error}", path.display())))
}

impl Validate for AgentConfig {
    fn validate(&self, _: &Common) -> Vec<Problem> {
        let mut problems: Vec<Problem> = [
            self.token().err(),
            self.dispatcher_ca().err(),
            self.dispatcher_identity().err(),
            self.argv_allow().err(),
            self.user().err(),
        ]
        .into_iter()
        .flatten()
        .collect();
        if self.dispatchers.is_empty() {
            problems.push(Problem::new("dispatchers", "is missing: give at least one address"));
        }
        if self.queues.is_empty() {
            problems.push(Problem::new("queues", "is empty: give at least one queue"));
        }
        for queue in self.queues.iter() {
            if let Some(error) = model::validate::name("queues", queue) {
                problems.push(Problem::new("queues", error.message));
            }
        }
        if self.slots == 0 || self.slots > SLOTS_MAX {
            problems.push(Problem::new("slots", format!("{}: use 1 to {SLOTS_MAX}", self.slots)));
        }
        let restricted = !self.exec_argv_allow.is_empty() || self.exec_user.is_some();
        if restricted && !self.exec_allowed {
            let message =
                "is false, so exec_argv_allow and exec_user mean nothing: set it, or leave them out";
            problems.push(Problem::new("exec_allowed", message));
        }
        if self.output_max_bytes == 0 || self.output_max_bytes > OUTPUT_MAX_BYTES {
            let message = format!("{}: use 1 to {OUTPUT_MAX_BYTES}", self.output_max_bytes);
            problems.push(Problem::new("output_max_bytes", message));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(config: &AgentConfig) -> Vec<String> {
        config.validate(&Common::default()).into_iter().map(|problem| problem.setting).collect()
    }

    fn sound() -> AgentConfig {
        AgentConfig {
            dispatchers: List::from(["http://127.0.0.1:7001"]),
            worker_token: Some("secret".into()),
            ..AgentConfig::default()
        }
    }

    #[test]
    fn everything_that_reaches_out_is_off_by_default() {
        let config = AgentConfig::default();
        assert!(!config.exec_allowed);
        assert!(!config.http_allow_loopback && !config.http_allow_private && !config.http_allow_link_local);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named_at_once() {
        assert_eq!(problems(&sound()), Vec::<String>::new());
        assert_eq!(problems(&AgentConfig::default()), ["worker_token", "dispatchers"]);
        let wrong = AgentConfig {
            slots: 0,
            exec_argv_allow: List::from(["backup.sh"]),
            output_max_bytes: 10_000,
            ..sound()
        };
        assert_eq!(problems(&wrong), ["exec_argv_allow", "slots", "exec_allowed", "output_max_bytes"]);
    }

    #[test]
    fn half_an_identity_names_the_other_half() {
        let file = || Some(PathBuf::from("/nowhere/x.pem"));
        let half = AgentConfig { dispatcher_client_key_file: file(), ..sound() };
        assert_eq!(problems(&half), ["dispatcher_client_certificate_file"]);
        let half = AgentConfig { dispatcher_client_certificate_file: file(), ..sound() };
        assert_eq!(problems(&half), ["dispatcher_client_key_file"]);
        let unread = AgentConfig { dispatcher_client_key_file: file(), ..half };
        assert_eq!(problems(&unread), ["dispatcher_client_certificate_file"]);
    }

    #[test]
    fn an_unknown_user_is_a_problem() {
        let wrong =
            AgentConfig { exec_allowed: true, exec_user: Some("nobody-by-this-name".into()), ..sound() };
        assert_eq!(problems(&wrong), ["exec_user"]);
    }
}
