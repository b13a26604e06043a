//! `escapement fence show|raise|reset`: what keeps deposed leaders and forgotten tokens out, and an operator's hand on it.
//!
//! It talks to the database alone. A new epoch is therefore only asked for: dispatchers make it, because it has to be
//! announced in etcd before the database gets it.

use super::migrate::settings;
use crate::arguments::{Fence, FenceAction, Output};
use crate::table::{self, say};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use store::Store;
use store::epoch::{self, Epoch};
use store::fence::{self, Role};

/// A dispatcher looks every five seconds, and at once when it has something to claim.
const NEW_EPOCH_LIMIT: Duration = Duration::from_secs(30);

const LOOK_EVERY: Duration = Duration::from_millis(200);

pub async fn run(fence: &Fence, output: Output) -> anyhow::Result<()> {
    let store = Store::new(settings(&fence.database))?;
    match &fence.action {
        FenceAction::Show => show(&store, output).await,
        FenceAction::Raise => raise(&store, output).await,
        FenceAction::Reset { role, yes } => reset(&store, role, *yes, output).await,
    }
}

async fn show(store: &Store, output: Output) -> anyhow::Result<()> {
    let fences = fence::list(store).await.context("reading the fences")?;
    let epoch = epoch::read(store).await.context("reading the epoch")?;
    if let Output::Json = output {
        let list: Vec<_> = fences
            .iter()
            .map(|fence| json!({"role": fence.role, "revision": fence.revision.to_string(), "holder": fence.holder.to_string(), "raisedAt": fence.raised_at}))
            .collect();
        table::print_json(&json!({ "fences": list, "tokens": tokens(&epoch) }));
        return Ok(());
    }
    let row = |fence: &fence::Fence| {
        vec![
            fence.role.clone(),
            fence.revision.to_string(),
            fence.holder.to_string(),
            fence.raised_at.to_rfc3339(),
        ]
    };
    table::print(&["ROLE", "REVISION", "HOLDER", "RAISED"], &fences.iter().map(row).collect::<Vec<_>>());
    let tokens = tokens(&epoch);
    say!("");
    table::print(
        &["EPOCH", "IN USE", "HIGHEST TOKEN", "DATABASE", "TIMELINE"],
        &[["epoch", "inUse", "highestToken", "systemIdentifier", "timeline"]
            .map(|field| table::text(&tokens[field]))
            .to_vec()],
    );
    Ok(())
}

/// The state of the tokens. As text, because they outgrow the numbers of many readers of JSON.
fn tokens(epoch: &Epoch) -> Value {
    json!({
        "epoch": epoch.stored.map(|stored| stored.epoch),
        "inUse": epoch.is_in_use(),
        "highestToken": epoch.highest_token().to_string(),
        "systemIdentifier": epoch.server.system_identifier.to_string(),
        "timeline": epoch.server.timeline,
    })
}

async fn raise(store: &Store, output: Output) -> anyhow::Result<()> {
    let Some(before) = epoch::disown(store).await.context("asking for a new epoch")? else {
        bail!("no dispatcher has made an epoch yet: no token was handed out");
    };
    let began = Instant::now();
    loop {
        let now = epoch::read(store).await.context("reading the epoch")?;
        if now.is_in_use() && now.stored.is_some_and(|stored| stored.epoch > before) {
            match output {
                Output::Json => table::print_json(&json!({ "tokens": tokens(&now) })),
                Output::Table => say!(
                    "epoch {} is in use, after {before}: every token from here on is higher than those before",
                    table::text(&tokens(&now)["epoch"])
                ),
            }
            return Ok(());
        }
        if began.elapsed() > NEW_EPOCH_LIMIT {
            bail!(
                "no dispatcher made a new epoch within {} s; nothing is handed out until one does",
                NEW_EPOCH_LIMIT.as_secs()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn reset(store: &Store, role: &str, yes: bool, output: Output) -> anyhow::Result<()> {
    let role = match role {
        "ticker" => Role::Ticker,
        "watchdog" => Role::Watchdog,
        other => bail!("role {other:?}: use ticker or watchdog"),
    };
    if !yes {
        bail!(
            "stop every old {} first, then say --yes: an old leader that still runs would no longer be refused",
            role.as_str()
        );
    }
    fence::reset(store, role).await.context("resetting the fence")?;
    match output {
        Output::Json => table::print_json(&json!({ "role": role.as_str(), "reset": true })),
        Output::Table => say!("the fence of {} is reset: the next leader raises it", role.as_str()),
    }
    Ok(())
}
