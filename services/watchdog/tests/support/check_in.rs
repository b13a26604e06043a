//! Check-ins of tests.

use super::{Cell, noon};
use model::check_in::Definition;
use model::ids::TenantId;
use model::severity::Severity;
use std::collections::BTreeMap;
use std::time::Duration as Time;
use store::check_in;
use uuid::Uuid;

/// A check-in that is expected at one o'clock, whose token is its name.
pub async fn check_in(cell: &Cell, name: &str) {
    let definition = Definition {
        schedule: Some("0 * * * *".to_owned()),
        timezone: "UTC".to_owned(),
        period: None,
        grace: Time::from_secs(60),
        max_runtime: None,
        channels: vec!["oncall".to_owned()],
        repeat: None,
        severity: Severity::Warning,
        labels: BTreeMap::from([("team".to_owned(), "storage".to_owned())]),
    };
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let judge_at = Some(noon(3_663));
    let new = check_in::New { id: Uuid::new_v4(), name, definition: &definition, secret: name, judge_at };
    check_in::insert(&tx, TenantId::DEFAULT, noon(0), &new).await.expect("stored");
    tx.commit().await.expect("committed");
}
