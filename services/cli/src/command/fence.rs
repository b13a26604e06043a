//! `escapement fence show|reset`.

use super::migrate::settings;
use crate::arguments::{Fence, FenceAction, Output};
use crate::table::{self, say};
use anyhow::{Context, bail};
use serde_json::json;
use store::fence::Role;

pub async fn run(fence: &Fence, output: Output) -> anyhow::Result<()> {
    let store = store::Store::new(settings(&fence.database))?;
    match &fence.action {
        FenceAction::Show => {
            let fences = store::fence::list(&store).await.context("reading the fences")?;
            match output {
                Output::Json => {
                    let list: Vec<_> = fences
                        .iter()
                        .map(|fence| json!({"role": fence.role, "revision": fence.revision.to_string(), "holder": fence.holder.to_string(), "raisedAt": fence.raised_at}))
                        .collect();
                    table::print_json(&json!({ "fences": list }));
                }
                Output::Table => {
                    let row = |fence: &store::fence::Fence| {
                        vec![
                            fence.role.clone(),
                            fence.revision.to_string(),
                            fence.holder.to_string(),
                            fence.raised_at.to_rfc3339(),
                        ]
                    };
                    table::print(
                        &["ROLE", "REVISION", "HOLDER", "RAISED"],
                        &fences.iter().map(row).collect::<Vec<_>>(),
                    );
                }
            }
            Ok(())
        }
        FenceAction::Reset { role, yes } => {
            let role = match role.as_str() {
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
            store::fence::reset(&store, role).await.context("resetting the fence")?;
            say!("the fence of {} is reset: the next leader raises it", role.as_str());
            Ok(())
        }
    }
}
