//! What the audit trail says of check-ins: what was expected, before and after. Of a token only that there is another one:
//! nothing else of a check-in is a secret.

use super::{plain, told};
use model::check_in::Definition;
use serde_json::{Value, json};
use store::audit::Event;
use store::check_in::CheckIn;
use uuid::Uuid;

/// A check-in was stored.
pub fn created(id: Uuid, name: &str, definition: &Definition) -> Event {
    event("check_in.create", name, json!({ "id": id, "after": plain(definition) }))
}

/// Something else is expected of a check-in.
pub fn changed(before: &CheckIn, after: &Definition) -> Event {
    let (was, is) = (plain(&before.definition), plain(after));
    let changed = told(&was, &is, |field| was.get(field) != is.get(field));
    event("check_in.update", &before.name, json!({ "id": before.id, "changed": changed }))
}

/// A check-in was deleted.
pub fn deleted(check_in: &CheckIn) -> Event {
    let detail = json!({ "id": check_in.id, "before": plain(&check_in.definition) });
    event("check_in.delete", &check_in.name, detail)
}

/// Nothing is expected of a check-in for now.
pub fn paused(check_in: &CheckIn) -> Event {
    event("check_in.pause", &check_in.name, json!({ "id": check_in.id }))
}

/// It is expected again.
pub fn resumed(check_in: &CheckIn) -> Event {
    event("check_in.resume", &check_in.name, json!({ "id": check_in.id }))
}

/// It reports with another token from now on.
pub fn rotated(check_in: &CheckIn) -> Event {
    event("check_in.rotate", &check_in.name, json!({ "id": check_in.id }))
}

fn event(action: &'static str, name: &str, detail: Value) -> Event {
    Event { action, object: format!("check-in/{name}"), detail }
}
