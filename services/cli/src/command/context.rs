//! `escapement context list|use|set|delete|show`: which registry the other commands ask.

use crate::arguments::{Connection, ContextAction, ContextSet, Output, Trust};
use crate::context::{Context, Contexts, Token};
use crate::table::{self, say};
use anyhow::{Context as _, bail};
use serde_json::{Value, json};

pub fn run(typed: &Connection, action: &ContextAction, output: Output) -> anyhow::Result<()> {
    let path = Contexts::path()?;
    let mut contexts = Contexts::read(&path)?;
    match action {
        ContextAction::List => list(&contexts, output),
        ContextAction::Show { name } => {
            let name = name.as_ref().or(contexts.current.as_ref());
            let name = name.context(
                "no context is in use: name one, or choose one with `escapement context use NAME`",
            )?;
            show(name, contexts.named(name)?, contexts.current.as_ref() == Some(name), output);
        }
        ContextAction::Use { name } => {
            contexts.named(name)?;
            contexts.current = Some(name.clone());
            contexts.write(&path)?;
            done(&contexts, name, "in use", output);
        }
        ContextAction::Set(set) => {
            let context = changed(contexts.contexts.get(&set.name), typed, set)?;
            contexts.contexts.insert(set.name.clone(), context);
            let current = contexts.current.get_or_insert_with(|| set.name.clone());
            let what = if *current == set.name { "set, and in use" } else { "set" };
            contexts.write(&path)?;
            done(&contexts, &set.name, what, output);
        }
        ContextAction::Delete { name } => {
            contexts.named(name)?;
            contexts.contexts.remove(name);
            contexts.current = contexts.current.take().filter(|current| current != name);
            contexts.write(&path)?;
            done(&contexts, name, "deleted", output);
        }
    }
    Ok(())
}

/// A context with what was typed in the place of what it had. Its token and certificates stay when its server does.
fn changed(stored: Option<&Context>, typed: &Connection, set: &ContextSet) -> anyhow::Result<Context> {
    let server = typed.server.clone().or_else(|| stored.map(|stored| stored.server.clone()));
    let Some(server) = server else {
        bail!("the context is new: say where its registry is with --server URL")
    };
    if !server.starts_with("http://") && !server.starts_with("https://") {
        bail!("--server {server:?} is no address: use one such as https://escapement.example");
    }
    let file =
        set.token_file.as_ref().map(std::path::absolute).transpose().context("reading --token-file")?;
    let token = typed.token.clone().map(Token::Value);
    let token = token.or(file.map(Token::File)).or(set.token_command.clone().map(Token::Command));
    let kept = stored.filter(|stored| stored.server == server).cloned().unwrap_or_default();
    let certificates = typed.trust.absolute().context("finding the certificates")?.or(kept.certificates);
    certificates.read()?; // what can't be used is said now, and not at the next command
    Ok(Context { server, token: token.or(kept.token), certificates })
}

fn as_json(name: &str, context: &Context, current: bool) -> Value {
    let token = context.token.as_ref().map(Token::source);
    let Trust { ca_file, client_certificate, client_key } = &context.certificates;
    json!({
        "name": name, "server": context.server, "token": token, "current": current,
        "caFile": ca_file, "clientCertificate": client_certificate, "clientKey": client_key,
    })
}

fn list(contexts: &Contexts, output: Output) {
    let all: Vec<Value> = contexts
        .contexts
        .iter()
        .map(|(name, context)| as_json(name, context, contexts.current.as_ref() == Some(name)))
        .collect();
    match output {
        Output::Json => table::print_json(&json!({ "contexts": all })),
        Output::Table => {
            let row = |context: &Value| {
                let used = if context["current"] == true { "*" } else { "" };
                let cell = |field: &str| table::text(&context[field]);
                vec![used.to_owned(), cell("name"), cell("server"), cell("token")]
            };
            table::print(&["USED", "CONTEXT", "SERVER", "TOKEN"], &all.iter().map(row).collect::<Vec<_>>());
        }
    }
}

fn show(name: &str, context: &Context, current: bool, output: Output) {
    let shown = as_json(name, context, current);
    match output {
        Output::Json => table::print_json(&shown),
        Output::Table => {
            for field in ["name", "server", "token", "caFile", "clientCertificate", "clientKey", "current"] {
                say!("{field:17} {}", table::text(&shown[field]));
            }
        }
    }
}

fn done(contexts: &Contexts, name: &str, what: &str, output: Output) {
    match (output, contexts.contexts.get(name)) {
        (Output::Json, Some(context)) => {
            table::print_json(&as_json(name, context, contexts.current.as_deref() == Some(name)));
        }
        (Output::Json, None) => table::print_json(&json!({ "name": name, "deleted": true })),
        (Output::Table, _) => say!("context {name} {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_with_its_server() {
        let token = Some(Token::Value("t".to_owned()));
        let stored = Context { server: "https://a".to_owned(), token, ..Context::default() };
        let set = ContextSet { name: "a".to_owned(), token_file: None, token_command: None };
        let typed = |server: &str, token: Option<&str>| Connection {
            server: (!server.is_empty()).then(|| server.to_owned()),
            token: token.map(str::to_owned),
            context: None,
            trust: Default::default(),
        };
        let of = |stored, typed| changed(stored, &typed, &set);
        assert_eq!(of(Some(&stored), typed("", None)).expect("as it was"), stored);
        assert_eq!(of(Some(&stored), typed("https://b", None)).expect("another server").token, None);
        let other = of(Some(&stored), typed("", Some("u"))).expect("another token");
        assert_eq!((other.server, other.token), ("https://a".to_owned(), Some(Token::Value("u".to_owned()))));
        assert!(of(None, typed("", None)).expect_err("no server").to_string().contains("--server"));
        assert!(of(None, typed("b", None)).expect_err("no address").to_string().contains("https://"));
    }
}
