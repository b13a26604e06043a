//! `escapement bootstrap`: the first token of a new database, which no token could make.

use super::migrate::settings;
use crate::arguments::{Bootstrap, Output, Role};
use crate::table::{self, say};
use anyhow::{Context, bail};
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use store::api_token::{self, NewToken};

/// Characters of a token that somebody else made: 128 random bits have as many in hexadecimal.
const CHARS_MIN: usize = 32;

pub async fn run(bootstrap: &Bootstrap, output: Output) -> anyhow::Result<()> {
    let (role, tenant) = match bootstrap.role {
        Role::Admin => (api_token::Role::Admin, Some(model::ids::TenantId::DEFAULT)),
        Role::Editor => (api_token::Role::Editor, Some(model::ids::TenantId::DEFAULT)),
        Role::Viewer => (api_token::Role::Viewer, Some(model::ids::TenantId::DEFAULT)),
        Role::Worker => (api_token::Role::Worker, None),
    };
    let store = store::Store::new(settings(&bootstrap.database))?;
    let secret = read_or_make(&bootstrap.token_file)?;
    let file = bootstrap.token_file.display();
    let found = api_token::find(&store, &api_token::hash(&secret))
        .await
        .context("looking for the token, after `escapement migrate`")?;
    match &found {
        Some(known) if known.role != role => {
            let has = known.role.as_str();
            bail!(
                "{file} holds a token of role {has}: name another file, or ask for role {}",
                has.to_lowercase()
            );
        }
        Some(_) => {}
        None => {
            let token = NewToken { tenant, name: &bootstrap.name, role, secret: &secret };
            api_token::create(&store, token).await.context("storing the token")?;
        }
    }
    match (output, found) {
        (Output::Json, found) => table::print_json(&json!({
            "name": bootstrap.name, "role": role.as_str(), "tokenFile": bootstrap.token_file, "created": found.is_none(),
        })),
        (Output::Table, Some(_)) => say!("the token in {file} is known already"),
        (Output::Table, None) => say!("the token in {file} is known from now on"),
    }
    Ok(())
}

fn read_or_make(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) => {
            let secret = text.trim();
            let chars = secret.chars().count();
            if chars < CHARS_MIN || secret.contains(|c: char| !c.is_ascii_graphic()) {
                bail!(
                    "{} holds no token: use at least {CHARS_MIN} printable characters without spaces (it has {chars}), \
                     or remove it and one is made",
                    file.display()
                );
            }
            Ok(secret.to_owned())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let secret = api_token::new_secret().context("drawing a token")?;
            write(file, &secret).with_context(|| format!("writing {}", file.display()))?;
            Ok(secret)
        }
        Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
    }
}

/// Writes a new file that only its owner may read.
fn write(file: &Path, secret: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(file)?.write_all(secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_token_makes_none_valid() {
        let file = std::env::temp_dir().join(format!("escapement-bootstrap-{}", std::process::id()));
        for text in ["", "\n", "password", "two words that are long enough to be one token"] {
            std::fs::write(&file, text).expect("written");
            assert!(read_or_make(&file).is_err(), "{text:?}");
        }
        std::fs::remove_file(&file).expect("removed");
        let made = read_or_make(&file).expect("made");
        assert_eq!(read_or_make(&file).expect("read"), made);
        std::fs::remove_file(&file).expect("removed");
    }
}
