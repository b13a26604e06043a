//! The audit trail's way out: pages of who changed what, the latest first. What goes in, and what is left out of it, is
//! in [`crate::audit`] and beside each change.

use crate::failure::Failure;
use crate::page;
use crate::registry::Registry;
use chrono::{DateTime, Utc};
use model::validate::FieldError;
use rpc::auth::{Caller, Role};
use rpc::convert::time;
use rpc::v1;
use rpc::v1::audit_service_server::AuditService;
use serde_json::Value;
use store::Store;
use store::audit::{Filter, Recorded};
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl AuditService for Registry {
    async fn list_audit_events(
        &self,
        request: Request<v1::ListAuditEventsRequest>,
    ) -> Result<Response<v1::ListAuditEventsResponse>, Status> {
        let caller = Caller::of(&request, Role::Admin)?.clone();
        Ok(Response::new(list(&self.store, &caller, &request.into_inner()).await?))
    }
}

async fn list(
    store: &Store,
    caller: &Caller,
    request: &v1::ListAuditEventsRequest,
) -> Result<v1::ListAuditEventsResponse, Failure> {
    let size = page::size(request.page_size)?;
    let filter = filter(request).map_err(Failure::Invalid)?;
    let before = page::last_key(&request.page_token)?;
    let before = before.as_deref().map(|key| read_key(key, &filter)).transpose()?;
    let before = before.unwrap_or((DateTime::<Utc>::MAX_UTC, i64::MAX));
    // PostgreSQL's timestamps end before chrono's.
    let before = (before.0.min(LAST), before.1);
    let mut events = store::audit::page(store, caller.tenant_id, &filter, before, size as i64 + 1).await?;
    let next = page::cut(&mut events, size).map(|last| page::token(&key(last, &filter)));
    let events = events.into_iter().map(message).collect();
    Ok(v1::ListAuditEventsResponse { events, next_page_token: next.unwrap_or_default() })
}

/// No event is as late.
const LAST: DateTime<Utc> = match DateTime::from_timestamp(253_402_300_799, 0) {
    Some(last) => last,
    None => DateTime::UNIX_EPOCH,
};

fn filter(request: &v1::ListAuditEventsRequest) -> Result<Filter, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut text = |field: &str, value: &str| {
        if value.contains('\0') {
            errors.push(FieldError::new(field, "contains a NUL character: leave it out"));
        }
        (!value.is_empty()).then(|| value.to_owned())
    };
    let (actor, action) = (text("actor", &request.actor), text("action", &request.action));
    let object = text("object", &request.object);
    let mut instant = |field: &str, value: &Option<prost_types::Timestamp>| match value {
        None => None,
        Some(value) => time::instant(field, Some(value)).map_err(|error| errors.push(error)).ok(),
    };
    let (from, until) = (instant("startTime", &request.start_time), instant("endTime", &request.end_time));
    if errors.is_empty() { Ok(Filter { actor, action, object, from, until }) } else { Err(errors) }
}

/// Where a page ends, and what its list was asked for.
fn key(last: &Recorded, filter: &Filter) -> String {
    format!("{}\n{}\n{}", last.at.timestamp_micros(), last.id, asked(filter))
}

fn read_key(key: &str, filter: &Filter) -> Result<(DateTime<Utc>, i64), Failure> {
    let mut parts = key.splitn(3, '\n');
    let at = parts.next().and_then(|micros| DateTime::from_timestamp_micros(micros.parse().ok()?));
    let id = parts.next().and_then(|id| id.parse().ok());
    match (at, id, parts.next()) {
        (Some(at), Some(id), Some(of)) if of == asked(filter) => Ok((at, id)),
        _ => Err(page::bad_token()),
    }
}

fn asked(filter: &Filter) -> String {
    let Filter { actor, action, object, from, until } = filter;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let micros = |at: &Option<DateTime<Utc>>| at.map(|at| at.timestamp_micros());
    format!("{:?}", (text(actor), text(action), text(object), micros(from), micros(until)))
}

fn message(event: Recorded) -> v1::AuditEvent {
    v1::AuditEvent {
        id: event.id,
        time: Some(time::timestamp(event.at)),
        actor: event.actor,
        action: event.action,
        object: event.object,
        detail: match kind(event.detail) {
            prost_types::value::Kind::StructValue(fields) => Some(fields),
            _ => None,
        },
    }
}

fn kind(value: Value) -> prost_types::value::Kind {
    use prost_types::value::Kind;
    let nested = |value: Value| prost_types::Value { kind: Some(kind(value)) };
    match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => {
            Kind::ListValue(prost_types::ListValue { values: items.into_iter().map(nested).collect() })
        }
        Value::Object(fields) => Kind::StructValue(prost_types::Struct {
            fields: fields.into_iter().map(|(name, value)| (name, nested(value))).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_token_is_for_its_filters_only() {
        let event = Recorded {
            id: 7,
            at: DateTime::UNIX_EPOCH,
            actor: "ci".to_owned(),
            action: "job.create".to_owned(),
            object: "job/a".to_owned(),
            detail: Value::Null,
        };
        let (any, one) = (Filter::default(), Filter { actor: Some("ci".to_owned()), ..Filter::default() });
        let token = key(&event, &one);
        assert_eq!(read_key(&token, &one).expect("ours"), (DateTime::UNIX_EPOCH, 7));
        assert!(read_key(&token, &any).is_err());
    }
}
