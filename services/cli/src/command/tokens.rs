//! `escapement tokens create|list|revoke`.

use crate::arguments::{Output, TokenAction, TokenRole};
use crate::client::{Client, encode};
use crate::table::{self, say};
use anyhow::Context;
use chrono::{DateTime, SecondsFormat, Utc};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub async fn run(client: &Client, action: &TokenAction, output: Output) -> anyhow::Result<()> {
    match action {
        TokenAction::Create { name, role, expires, tenant, every_tenant, secret_file } => {
            let body = json!({
                "name": name,
                "role": role_text(*role),
                "expireTime": expires.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true)),
                "tenant": tenant,
                "everyTenant": every_tenant,
            });
            create(client, &body, secret_file.as_deref(), output).await
        }
        TokenAction::List { name, revoked, tenant } => {
            list(client, name.as_deref(), *revoked, tenant.as_deref(), output).await
        }
        TokenAction::Revoke { name, tenant } => {
            let answer = client.delete(&of(name, tenant.as_deref())).await?;
            match output {
                Output::Json => table::print_json_of(name, &answer),
                Output::Table => say!("token {name} revoked: within a second it opens nothing any more"),
            }
            Ok(())
        }
    }
}

fn role_text(role: TokenRole) -> String {
    role.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The path of one token.
fn of(name: &str, tenant: Option<&str>) -> String {
    let tenant = tenant.map(|tenant| format!("?tenant={}", encode(tenant))).unwrap_or_default();
    format!("/v1/tokens/{}{tenant}", encode(name))
}

async fn create(client: &Client, body: &Value, file: Option<&Path>, output: Output) -> anyhow::Result<()> {
    // Before there is a secret to lose: the file must be new.
    let file = file.map(|path| anyhow::Ok((path, new_file(path)?))).transpose()?;
    let made = client.post("/v1/tokens", body).await;
    let mut token = match (made, &file) {
        (Err(error), Some((path, _))) => {
            std::fs::remove_file(path).ok();
            return Err(error);
        }
        (made, _) => made?,
    };
    if let Some((path, mut file)) = file {
        let secret = token["secret"].as_str().unwrap_or_default().to_owned();
        writeln!(file, "{secret}").with_context(|| format!("writing {}", path.display()))?;
        token["secret"] = json!("");
        if output == Output::Table {
            say!("token {} made; its secret is in {}", table::text(&token["name"]), path.display());
            return Ok(());
        }
    }
    match output {
        Output::Json => table::print_json(&token),
        Output::Table => {
            say!("{}", table::text(&token["secret"]));
            eprintln!(
                "token {} made; its secret is shown this once: keep it now",
                table::text(&token["name"])
            );
        }
    }
    Ok(())
}

/// A file that was not there, and that only its owner may read.
fn new_file(path: &Path) -> anyhow::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.with_context(|| format!("making {}: name a file that is not there", path.display()))
}

async fn list(
    client: &Client,
    name: Option<&str>,
    revoked: bool,
    tenant: Option<&str>,
    output: Output,
) -> anyhow::Result<()> {
    let tokens = match name {
        Some(name) => {
            let token = client.get(&of(name, tenant)).await?;
            if output == Output::Json {
                table::print_json(&token);
                return Ok(());
            }
            vec![token]
        }
        None => {
            let tenant = encode(tenant.unwrap_or_default());
            client.list(&format!("/v1/tokens?showRevoked={revoked}&tenant={tenant}"), "tokens").await?
        }
    };
    match output {
        Output::Json => table::print_json(&json!({ "tokens": tokens })),
        Output::Table => print(&tokens, Utc::now()),
    }
    Ok(())
}

fn print(tokens: &[Value], now: DateTime<Utc>) {
    let row = |token: &Value| {
        let state = match (table::instant(&token["revokeTime"]), table::instant(&token["expireTime"])) {
            (Some(_), _) => "revoked",
            (None, Some(at)) if at <= now => "expired",
            _ => "ok",
        };
        let role = match token["everyTenant"] {
            Value::Bool(true) => format!("{} (every tenant)", table::text(&token["role"])),
            _ => table::text(&token["role"]),
        };
        vec![
            table::text(&token["name"]),
            role,
            table::text(&token["prefix"]),
            table::second(&token["createTime"]),
            table::second(&token["expireTime"]),
            table::second(&token["lastUseTime"]),
            state.to_owned(),
            table::text(&token["id"]),
        ]
    };
    let rows: Vec<_> = tokens.iter().map(row).collect();
    let headings =
        ["TOKEN", "ROLE", "PREFIX", "MADE (UTC)", "EXPIRES (UTC)", "LAST USED (UTC)", "STATE", "ID"];
    table::print(&headings, &rows);
}
