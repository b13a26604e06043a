//! Reminding: alerts that nobody looks after are told again, and what people did with one is told to all who know of it.
//!
//! Of alerts of any kind: what is told is made from what was told of the opening, to the same channels; an opening that
//! waited for the end of a silence is told then. Invariant: what is told and that it was told are written in one
//! transaction, so that no failover repeats or loses it.

use super::{Summary, tell};
use crate::message::{Event, Message};
use model::alert::life::{self, REPEAT_DEFAULT, Telling};
use store::alert_delivery::{self, Delivery};
use store::alert_life::{self, Locked};
use store::fence::{self, Term};
use store::{Store, StoreError};
use uuid::Uuid;

/// Tells again of up to `limit` alerts, and of as many what people did.
///
/// # Errors
/// [`StoreError`].
pub async fn batch(store: &Store, term: Term, limit: i64) -> Result<Summary, StoreError> {
    let operation = "tell of alerts again";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    fence::hold(&tx, term).await?;
    let locked = alert_life::lock_to_tell(&tx, limit).await?;
    if locked.is_empty() {
        return Ok(Summary::default());
    }
    let ids: Vec<_> = locked.iter().map(|alert| alert.id).collect();
    let openings = alert_life::openings(&tx, &ids).await?;
    let (mut lives, mut deliveries, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let mut owed = Vec::new();
    for alert in &locked {
        let (life, telling) = next(alert);
        lives.push((alert.id, life, None));
        let Some(telling) = telling else { continue };
        if telling == Telling::Opened {
            owed.push((alert.id, alert.at));
            events.push((alert.id, "TOLD", alert.detail.as_str()));
            continue;
        }
        let told = openings.iter().filter(|(id, _, _)| *id == alert.id);
        let before = deliveries.len();
        deliveries.extend(told.filter_map(|(_, channel, body)| again(alert, telling, *channel, body)));
        // What nobody was told of, or with another alert, is not told again either.
        if telling == Telling::Repeated && deliveries.len() > before {
            events.push((alert.id, telling.as_str(), alert.detail.as_str()));
        }
    }
    deliveries.extend(tell::owed(&tx, &owed).await?);
    alert_life::live_on(&tx, &lives, None).await?;
    alert_delivery::insert(&tx, &deliveries).await?;
    alert_life::record(&tx, &events, None).await?;
    tx.commit().await?;
    let more = locked.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Summary { deliveries: deliveries.len(), more, ..Summary::default() })
}

/// How an alert lives on, and what is told of it now: what a person did, else whatever the time asks for. If this version
/// can't read what a person did, that is logged once and dropped.
fn next(alert: &Locked) -> (life::Life, Option<Telling>) {
    match &alert.to_tell {
        Ok(Some(telling)) => return (alert.life, Some(*telling)),
        Ok(None) => {}
        Err(problem) => {
            tracing::error!(alert.id = %alert.id, error = problem, "What somebody did with an alert can't be told");
        }
    }
    let repeat = alert.repeat.unwrap_or(REPEAT_DEFAULT);
    // The watchdog is refused nothing.
    alert
        .life
        .on(life::Event::Look, alert.at, repeat)
        .map_or((alert.life, None), |step| (step.life, step.telling))
}

/// The delivery that tells a channel what became of the alert of whose opening it was told by `body`.
fn again(alert: &Locked, telling: Telling, channel_id: Uuid, body: &str) -> Option<Delivery> {
    let opening = match Message::of_body(body) {
        Ok(message) => message,
        Err(error) => {
            tracing::error!(alert.id = %alert.id, error = %error, "What was told of an alert can't be told again");
            return None;
        }
    };
    let somebody = alert.acknowledged_by.as_deref().unwrap_or("Somebody");
    let (event, summary) = match telling {
        Telling::Opened => (Event::Opened, opening.summary.clone()),
        Telling::Repeated => (Event::Repeated, format!("Still open: {}", opening.summary)),
        Telling::Acknowledged => {
            (Event::Acknowledged, format!("{somebody} looks after it: {}", opening.summary))
        }
        Telling::Resolved => (Event::Resolved, format!("Resolved by hand: {}", opening.summary)),
    };
    let stored = event.stored()?;
    let what_to_do = match event {
        Event::Resolved => "Nothing.".to_owned(),
        _ => opening.what_to_do.clone(),
    };
    let message = Message { event, at: alert.at, summary, what_to_do, count: alert.count, ..opening };
    Some(Delivery { id: Uuid::new_v4(), alert_id: alert.id, channel_id, event: stored, body: message.body() })
}
