//! Alerts that are told without a job that fails: rows as the check writes them.
#![allow(dead_code, reason = "shared by several test programs")]

use crate::support::{Cell, noon, rows};
use model::channel::{Accepts, Target};
use model::ids::{JobId, TenantId};
use model::severity::Severity;
use store::alert_channel::{self, Channel};
use store::alert_delivery::{self, Delivery};
use uuid::Uuid;
use watchdog::message::{Event, Message, Subject};

/// Stores a channel.
pub async fn channel(cell: &Cell, name: &str, target: Target, secret: Option<&str>) -> Uuid {
    let channel = Channel {
        id: Uuid::new_v4(),
        tenant_id: TenantId::DEFAULT,
        name: name.to_owned(),
        target,
        secret: secret.map(str::to_owned),
        accepts: Accepts::default(),
        system: None,
        created_at: noon(0),
    };
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    alert_channel::insert(&tx, TenantId::DEFAULT, noon(0), std::slice::from_ref(&channel))
        .await
        .expect("stored");
    tx.commit().await.expect("committed");
    channel.id
}

/// An open alert.
pub struct Alert {
    id: Uuid,
    /// What is told of it; its event is filled in.
    pub message: Message,
}

impl Alert {
    /// Opens one about the job `invoices`.
    pub async fn open(cell: &Cell) -> Self {
        let (id, job) = (Uuid::new_v4(), Uuid::new_v4());
        let now = rows!(
            cell,
            "INSERT INTO alert (id, tenant_id, job_id, first_occurrence, last_occurrence, opened_at, kind, cause) \
             VALUES ($1, '00000000-0000-4000-8000-000000000001', $2, esc_now(), esc_now(), esc_now(), 'NO_SUCCESS', \
                     'WAITING') RETURNING opened_at",
            id,
            job
        )[0]
        .get(0);
        let message = Message {
            alert_id: id,
            dedup_key: id.to_string(),
            severity: Severity::Critical,
            subject: Subject::Job { id: JobId(job), name: "invoices".to_owned() },
            kind: "NO_SUCCESS".to_owned(),
            cause: "WAITING".to_owned(),
            summary: "invoices: no success by noon".to_owned(),
            ..Message::test(id, "", now)
        };
        Self { id, message }
    }

    /// Ends it now.
    pub async fn resolve(&mut self, cell: &Cell) {
        let ended = rows!(
            cell,
            "UPDATE alert SET resolved_at = esc_now() WHERE id = $1 RETURNING resolved_at",
            self.id
        );
        self.message.at = ended[0].get(0);
    }
}

/// Puts an event of the alert into the outbox.
pub async fn tell(cell: &Cell, alert: &Alert, event: Event, channel: Uuid) -> Uuid {
    let message = Message { event, ..alert.message.clone() };
    let event = event.stored().expect("an alert's event");
    let delivery =
        Delivery { id: Uuid::new_v4(), alert_id: alert.id, channel_id: channel, event, body: message.body() };
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    alert_delivery::insert(&tx, std::slice::from_ref(&delivery)).await.expect("stored");
    tx.commit().await.expect("committed");
    delivery.id
}
