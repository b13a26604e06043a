//! Which registry is asked, and as whom: what was typed counts before the environment, and that before contexts.
//!
//! Invariant: a context's token and certificates go to that context's server only, and what the environment holds never to a
//! server that a typed `--context` names. Decided purely by [`Connection::choose`].

use super::Trust;
use crate::client::Client;
use crate::context::Contexts;
use crate::hint::{Origin, Source};
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use std::env::VarError;
use std::path::PathBuf;

/// Where the registry is, and who asks.
#[derive(Debug, Args)]
pub struct Connection {
    /// The registry's REST address [env: ESCAPEMENT_SERVER]. Without it the context in use counts, and without one the local
    /// stack under .escapement/, when there is one.
    #[arg(long, global = true, value_name = "URL", conflicts_with = "context")]
    pub server: Option<String>,
    /// The bearer token [env: ESCAPEMENT_TOKEN].
    #[arg(long, global = true)]
    pub token: Option<String>,
    /// A context instead of the one in use [env: ESCAPEMENT_CONTEXT]; see `escapement context`.
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    #[command(flatten)]
    pub trust: Trust,
}

/// What the environment says.
#[derive(Debug, Default, Clone)]
pub struct Environment {
    server: Option<String>,
    token: Option<String>,
    context: Option<String>,
    trust: Trust,
}

impl Environment {
    /// Of this process; what is empty says nothing.
    ///
    /// # Errors
    /// When a variable is no text.
    pub fn read() -> anyhow::Result<Self> {
        let variable = |name| match std::env::var(name) {
            Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => bail!("{name} is no text in UTF-8: set it anew, or unset it"),
        };
        Ok(Self {
            server: variable("ESCAPEMENT_SERVER")?,
            token: variable("ESCAPEMENT_TOKEN")?,
            context: variable("ESCAPEMENT_CONTEXT")?,
            trust: Trust::of_environment(),
        })
    }
}

/// The registry that is asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Chosen {
    /// By its address.
    Server { url: String, token: Option<String> },
    /// By a context, as somebody else than it says if there is a token.
    Context { name: String, token: Option<String> },
    /// The local stack, as its administrator unless there is a token.
    Local { token: Option<String> },
}

impl Connection {
    /// A client of the registry that the arguments, the environment, a context or the local stack name.
    pub fn client(&self) -> anyhow::Result<Client> {
        let environment = Environment::read()?;
        // A file that can't be read is in nobody's way who says which server is meant.
        let meant = self.server.is_some() || self.context.is_some() || environment.server.is_some();
        let current = match Contexts::path() {
            Ok(path) if !meant => Contexts::read(&path)?.current,
            _ => None,
        };
        let trust = self.trust(&environment);
        match self.choose(environment, current) {
            Chosen::Server { url, token } => {
                let named = if self.server.is_some() { "--server" } else { "ESCAPEMENT_SERVER" };
                let origin = Origin { server: Source::Named(named), token: self.source_of(&token) };
                Client::new(&url, token, origin)?.trusting(trust.read()?)
            }
            Chosen::Local { token } => {
                let source = self.source_of(&token);
                let data = PathBuf::from(stack::dev::DATA_DEFAULT);
                Client::of_local_stack(&data, token.zip(source))?.trusting(trust.read()?)
            }
            Chosen::Context { name, token } => self.of_context(name, token, trust),
        }
    }

    fn of_context(&self, name: String, token: Option<String>, trust: Trust) -> anyhow::Result<Client> {
        let contexts = Contexts::read(&Contexts::path()?)?;
        let context = contexts.named(&name)?;
        let (token, source) = match (token, &context.token) {
            (Some(token), _) => {
                let token = Some(token);
                (token.clone(), self.source_of(&token))
            }
            (None, Some(stored)) => (Some(stored.read()?), Some(Source::Context(name.clone()))),
            (None, None) => (None, None),
        };
        let trust = trust.or(context.certificates.clone()).read();
        let trust = trust.with_context(|| format!("context {name}"))?;
        Client::new(&context.server, token, Origin { server: Source::Context(name), token: source })?
            .trusting(trust)
    }

    /// Where a token stood that is not a context's.
    fn source_of(&self, token: &Option<String>) -> Option<Source> {
        let named = if self.token.is_some() { "--token" } else { "ESCAPEMENT_TOKEN" };
        token.as_ref().map(|_| Source::Named(named))
    }

    /// What was typed of certificates, and what of the environment counts beside it.
    fn trust(&self, environment: &Environment) -> Trust {
        let meant = self.context.is_some();
        self.trust.clone().or(if meant { Trust::default() } else { environment.trust.clone() })
    }

    /// `current` is the context in use.
    fn choose(&self, environment: Environment, current: Option<String>) -> Chosen {
        let typed = self.token.clone();
        if let Some(url) = self.server.clone() {
            return Chosen::Server { url, token: typed.or(environment.token) };
        }
        if let Some(name) = self.context.clone() {
            return Chosen::Context { name, token: typed };
        }
        let token = typed.or(environment.token);
        if let Some(url) = environment.server {
            return Chosen::Server { url, token };
        }
        match environment.context.or(current) {
            Some(name) => Chosen::Context { name, token },
            None => Chosen::Local { token },
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum ContextAction {
    /// Shows all contexts, and which one is in use.
    List,
    /// Uses a context from now on.
    Use {
        /// Its name.
        name: String,
    },
    /// Makes or changes a context; the first one is used at once.
    Set(ContextSet),
    /// Forgets a context.
    Delete {
        /// Its name.
        name: String,
    },
    /// Shows a context, without its token.
    Show {
        /// Its name; the one in use without it.
        name: Option<String>,
    },
}

/// `--server`, `--token` and the files of certificates, which every command has, say the rest.
#[derive(Debug, Args)]
pub struct ContextSet {
    /// Its name.
    pub name: String,
    /// Holds the token, and is read each time.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["token_command", "token"])]
    pub token_file: Option<PathBuf>,
    /// Prints the token, and is run each time: a line for the shell, such as "pass show escapement".
    #[arg(long, value_name = "LINE", conflicts_with = "token")]
    pub token_command: Option<String>,
}

#[derive(Debug, Args)]
pub struct Completion {
    /// Which one.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Shells that can complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// In ~/.bashrc: source <(escapement completion bash)
    Bash,
    /// In ~/.zshrc: source <(escapement completion zsh)
    Zsh,
    /// In ~/.config/fish/config.fish: escapement completion fish | source
    Fish,
}

impl Shell {
    /// As it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<String> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn chosen(typed: [&str; 3], environment: [&str; 3], current: &str) -> Chosen {
        let [server, token, context] = typed.map(text);
        let typed = Connection { server, token, context, trust: Trust::default() };
        let [server, token, context] = environment.map(text);
        typed.choose(Environment { server, token, context, trust: Trust::default() }, text(current))
    }

    #[test]
    fn what_was_typed_counts_before_the_environment_and_that_before_contexts() {
        let server = |url: &str, token| Chosen::Server { url: url.to_owned(), token: text(token) };
        let context = |name: &str, token| Chosen::Context { name: name.to_owned(), token: text(token) };
        let none = ["", "", ""];
        let all = ["E", "et", "ec"];
        assert_eq!(chosen(none, none, ""), Chosen::Local { token: None });
        assert_eq!(chosen(none, ["", "et", ""], ""), Chosen::Local { token: text("et") });
        assert_eq!(chosen(none, none, "c"), context("c", ""));
        assert_eq!(chosen(none, ["", "", "ec"], "c"), context("ec", ""));
        assert_eq!(chosen(none, ["", "et", "ec"], "c"), context("ec", "et"));
        assert_eq!(chosen(none, all, "c"), server("E", "et"));
        assert_eq!(chosen(["", "ft", ""], all, "c"), server("E", "ft"));
        assert_eq!(chosen(["F", "", ""], all, "c"), server("F", "et"));
        assert_eq!(chosen(["F", "ft", ""], none, "c"), server("F", "ft"));
        // The environment's token belongs to its server, not to a context that was typed.
        assert_eq!(chosen(["", "", "fc"], all, "c"), context("fc", ""));
        assert_eq!(chosen(["", "ft", "fc"], all, "c"), context("fc", "ft"));
    }

    #[test]
    fn certificates_of_the_environment_are_not_meant_for_a_context_that_was_typed() {
        let file = |name: &str| Trust { ca_file: Some(name.into()), ..Trust::default() };
        let environment = Environment { trust: file("environment"), ..Environment::default() };
        let typed =
            |context: &str, trust| Connection { server: None, token: None, context: text(context), trust };
        assert_eq!(typed("", Trust::default()).trust(&environment), file("environment"));
        assert_eq!(typed("", file("typed")).trust(&environment), file("typed"));
        assert_eq!(typed("prod", Trust::default()).trust(&environment), Trust::default());
    }
}
