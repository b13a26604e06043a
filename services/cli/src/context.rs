//! Contexts: named registries, how their tokens are got and where certificates are, in a file of the user's own.
//!
//! Invariants: the file is readable by its owner only, from its first byte on, and is replaced whole; the token of a context
//! goes to that context's server and to no other. Deliberately not here: which context counts, see
//! [`crate::arguments::Connection`].

use crate::arguments::Trust;
use crate::suggest;
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the file is, instead of its usual place.
pub const PATH_VARIABLE: &str = "ESCAPEMENT_CONFIG";

/// What the file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// A registry, and who asks it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Context {
    /// Its REST address.
    pub server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Where the files are by which the registry and we know each other.
    #[serde(default, skip_serializing_if = "Trust::is_empty")]
    pub certificates: Trust,
}

/// How a token is got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Token {
    /// It stands here.
    Value(String),
    /// It stands in a file.
    File(PathBuf),
    /// A line for the shell prints it.
    Command(String),
}

impl Token {
    /// The token.
    ///
    /// # Errors
    /// When the file can't be read, the command fails, or there is no text.
    pub fn read(&self) -> anyhow::Result<String> {
        let text = match self {
            Self::Value(token) => token.clone(),
            Self::File(path) => std::fs::read_to_string(path)
                .with_context(|| format!("reading the context's token from {}", path.display()))?,
            Self::Command(line) => printed(line)?,
        };
        match text.trim() {
            "" => bail!("the context's token is empty: {}", self.source()),
            token => Ok(token.to_owned()),
        }
    }

    /// Where it comes from, without the token.
    pub fn source(&self) -> String {
        match self {
            Self::Value(_) => "in the file of contexts".to_owned(),
            Self::File(path) => format!("from {}", path.display()),
            Self::Command(line) => format!("printed by `{line}`"),
        }
    }
}

fn printed(line: &str) -> anyhow::Result<String> {
    let output = Command::new("/bin/sh").args(["-c", line]).stderr(std::process::Stdio::inherit()).output();
    let output = output.with_context(|| format!("running `{line}` for the context's token"))?;
    if !output.status.success() {
        bail!("`{line}`, which is to print the context's token, failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed something else than a token"))
}

impl Contexts {
    /// The file's place: `$ESCAPEMENT_CONFIG`, else `escapement/contexts.yaml` in `$XDG_CONFIG_HOME` or `~/.config`.
    ///
    /// # Errors
    /// When the environment names none of them.
    pub fn path() -> anyhow::Result<PathBuf> {
        place(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
            .context("no place for contexts: set HOME, XDG_CONFIG_HOME or ESCAPEMENT_CONFIG")
    }

    /// What the file holds; nothing when it is missing.
    ///
    /// # Errors
    /// When it can't be read, others may read it, or it holds something else than contexts.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = path.display();
            bail!("{path} holds tokens and has mode {mode:o}: keep it to yourself with `chmod 600 {path}`");
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_yaml_ng::from_str(&text).with_context(|| format!("{} holds no contexts", path.display()))
    }

    /// Writes the file, for its owner only: a new one, which takes the old one's place.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let writing = || format!("writing {}", path.display());
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(writing)?;
        }
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let text = serde_yaml_ng::to_string(self).with_context(writing)?;
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let written = file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let moved = written.and_then(|()| std::fs::rename(&new, path));
        if moved.is_err() {
            std::fs::remove_file(&new).ok();
        }
        moved.with_context(writing)
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of that name; the message lists those that there are.
    pub fn named(&self, name: &str) -> anyhow::Result<&Context> {
        self.contexts.get(name).with_context(|| {
            let names: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let known = if names.is_empty() { "there is none yet".to_owned() } else { names.join(", ") };
            let meant = match suggest::near(name, self.contexts.keys().cloned()).as_slice() {
                [] => String::new(),
                near => format!("did you mean {}? ", near.join(" or ")),
            };
            format!(
                "no context {name:?}: {known}\n  {meant}`escapement context set {name} --server URL` makes it"
            )
        })
    }
}

fn place(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if let Some(path) = variable(PATH_VARIABLE) {
        return Some(path.into());
    }
    let absolute = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
    Some(folder.join("escapement/contexts.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::testkit::TempFolder;

    #[test]
    fn the_place_follows_the_environment() {
        let at = |pairs: &[(&str, &str)]| {
            place(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        let home = ("HOME", "/home/a");
        assert_eq!(at(&[]), None);
        assert_eq!(at(&[home]), Some("/home/a/.config/escapement/contexts.yaml".into()));
        assert_eq!(at(&[home, ("XDG_CONFIG_HOME", "/x")]), Some("/x/escapement/contexts.yaml".into()));
        // As the XDG specification has it, a relative path is ignored.
        assert_eq!(
            at(&[home, ("XDG_CONFIG_HOME", "x")]),
            Some("/home/a/.config/escapement/contexts.yaml".into())
        );
        assert_eq!(at(&[home, (PATH_VARIABLE, "c.yaml")]), Some("c.yaml".into()));
    }

    #[test]
    fn the_file_is_its_owners_and_read_as_it_was_written() {
        let folder = TempFolder::create("contexts").expect("a folder");
        let path = folder.path().join("deep/contexts.yaml");
        assert_eq!(Contexts::read(&path).expect("nothing yet"), Contexts::default());
        let context = |token| Context { server: "https://a.example".to_owned(), token, ..Context::default() };
        let certificates = Trust { ca_file: Some("/ca.pem".into()), ..Trust::default() };
        let contexts = Contexts {
            current: Some("b".to_owned()),
            contexts: BTreeMap::from([
                ("a".to_owned(), Context { certificates, ..context(None) }),
                ("b".to_owned(), context(Some(Token::Value("esc_1".to_owned())))),
                ("c".to_owned(), context(Some(Token::File("/t".into())))),
                ("d".to_owned(), context(Some(Token::Command("pass show d".to_owned())))),
            ]),
        };
        contexts.write(&path).expect("written");
        contexts.write(&path).expect("written over");
        assert_eq!(Contexts::read(&path).expect("read"), contexts);
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.path().join("deep"))), (0o600, 0o700));

        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("set");
        let refused = Contexts::read(&path).expect_err("others may read it").to_string();
        assert!(refused.contains("mode 640") && refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn a_token_is_got_from_where_the_context_says() {
        let folder = TempFolder::create("token").expect("a folder");
        let file = folder.path().join("token");
        std::fs::write(&file, "esc_file\n").expect("written");
        assert_eq!(Token::File(file.clone()).read().expect("its text"), "esc_file");
        assert_eq!(Token::Command("echo esc_said".to_owned()).read().expect("its text"), "esc_said");
        assert!(Token::Command("true".to_owned()).read().expect_err("none").to_string().contains("empty"));
        let failed = Token::Command("exit 3".to_owned()).read().expect_err("it fails").to_string();
        assert!(failed.contains("exit 3"), "{failed}");
        std::fs::remove_file(&file).expect("removed");
        assert!(Token::File(file).read().is_err());
    }
}
