//! Alerts: list, get, acknowledge, silence, resolve. What people do is decided by the alert's state machine and left
//! for the watchdog to tell.

use crate::failure::{Failure, retrying, wrong};
use crate::registry::Registry;
use crate::{audit, check_ins, jobs, page};
use chrono::{DateTime, Utc};
use model::alert::life::{Event, State, Telling};
use model::severity::Severity;
use model::validate::FieldError;
use rpc::auth::{Caller, Role};
use rpc::convert::time;
use rpc::v1;
use rpc::v1::alert_service_server::AlertService;
use rpc::v1::alert_severity::Level;
use std::time::Duration;
use store::Store;
use store::alert_life::{self, Alert, Filter, Happened};
use tonic::{Request, Response, Status};
use uuid::Uuid;

/// Characters of a reason.
const REASON_CHARS_MAX: usize = 256;
/// After every alert.
const END_OF_TIME: DateTime<Utc> = match DateTime::from_timestamp(32_503_680_000, 0) {
    Some(year_3000) => year_3000,
    None => DateTime::UNIX_EPOCH,
};

#[tonic::async_trait]
impl AlertService for Registry {
    async fn list_alerts(
        &self,
        request: Request<v1::ListAlertsRequest>,
    ) -> Result<Response<v1::ListAlertsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(list(&self.store, &caller, &request.into_inner()).await?))
    }

    async fn get_alert(&self, request: Request<v1::GetAlertRequest>) -> Result<Response<v1::Alert>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(get(&self.store, &caller, &request.into_inner().alert).await?))
    }

    async fn acknowledge_alert(
        &self,
        request: Request<v1::AcknowledgeAlertRequest>,
    ) -> Result<Response<v1::Alert>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let request = request.into_inner();
        let deed = Deed::new(Asked::Acknowledge, &request.reason)?;
        Ok(Response::new(act(&self.store, &caller, &request.alert, &deed).await?))
    }

    async fn silence_alert(
        &self,
        request: Request<v1::SilenceAlertRequest>,
    ) -> Result<Response<v1::Alert>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let request = request.into_inner();
        let deed = Deed::new(silence(&request)?, &request.reason)?;
        Ok(Response::new(act(&self.store, &caller, &request.alert, &deed).await?))
    }

    async fn resolve_alert(
        &self,
        request: Request<v1::ResolveAlertRequest>,
    ) -> Result<Response<v1::Alert>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let request = request.into_inner();
        let deed = Deed::new(Asked::Resolve, &request.reason)?;
        Ok(Response::new(act(&self.store, &caller, &request.alert, &deed).await?))
    }
}

/// What somebody wants to do with an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Acknowledge,
    SilenceFor(Duration),
    SilenceUntil(DateTime<Utc>),
    Resolve,
}

impl Asked {
    fn event(self, at: DateTime<Utc>) -> Event {
        match self {
            Self::Acknowledge => Event::Acknowledge,
            Self::SilenceFor(duration) => Event::Silence(at + duration),
            Self::SilenceUntil(until) => Event::Silence(until),
            Self::Resolve => Event::Resolve,
        }
    }

    /// As history and audit trail name it.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Acknowledge => ("ACKNOWLEDGED", "alert.acknowledge"),
            Self::SilenceFor(_) | Self::SilenceUntil(_) => ("SILENCED", "alert.silence"),
            Self::Resolve => ("RESOLVED", "alert.resolve"),
        }
    }
}

struct Deed {
    asked: Asked,
    reason: String,
}

impl Deed {
    fn new(asked: Asked, reason: &str) -> Result<Self, Failure> {
        let length = reason.chars().count();
        if length > REASON_CHARS_MAX || reason.contains('\0') {
            let message = format!("{length} characters: use at most {REASON_CHARS_MAX}, and no NUL");
            return Err(wrong("reason", message));
        }
        Ok(Self { asked, reason: reason.to_owned() })
    }
}

fn silence(request: &v1::SilenceAlertRequest) -> Result<Asked, Failure> {
    let invalid = |error: FieldError| Failure::Invalid(vec![error]);
    match (&request.duration, &request.until) {
        (Some(duration), None) => {
            let duration = time::duration_of("duration", duration).map_err(invalid)?;
            if duration.is_zero() || duration > model::alert::life::SILENCE_MAX {
                return Err(wrong("duration", "use more than 0 s, and at most 30 days"));
            }
            Ok(Asked::SilenceFor(duration))
        }
        (None, Some(until)) => time::instant("until", Some(until)).map(Asked::SilenceUntil).map_err(invalid),
        (Some(_), Some(_)) => Err(wrong("until", "is given beside duration: use one of them")),
        (None, None) => Err(wrong("duration", "is missing: say for how long, or until when with `until`")),
    }
}

async fn list(
    store: &Store,
    caller: &Caller,
    request: &v1::ListAlertsRequest,
) -> Result<v1::ListAlertsResponse, Failure> {
    let size = page::size(request.page_size)?;
    let mut filter = filter(request)?;
    if !request.job.is_empty() {
        filter.job = Some(jobs::find_or_deleted(store, caller, &request.job).await?.id);
    }
    if !request.check_in.is_empty() {
        filter.check_in = Some(check_ins::find(store, caller, &request.check_in).await?.id);
    }
    let before = match page::last_key(&request.page_token)? {
        Some(key) => position(&key).ok_or_else(page::bad_token)?,
        None => (END_OF_TIME, Uuid::max()),
    };
    let mut alerts = alert_life::page(store, caller.tenant_id, before, &filter, size as i64 + 1).await?;
    let last = page::cut(&mut alerts, size).map(|last| page::token(&key(last)));
    let alerts = alerts.into_iter().map(|alert| message(alert, Vec::new())).collect();
    Ok(v1::ListAlertsResponse { alerts, next_page_token: last.unwrap_or_default() })
}

fn filter(request: &v1::ListAlertsRequest) -> Result<Filter, Failure> {
    let mut errors = Vec::new();
    let states: Vec<_> = named(&request.states, "states", &mut errors, |number| {
        v1::alert::State::try_from(number).ok()?.as_str_name().parse::<State>().ok()
    });
    let severities: Vec<_> = named(&request.severities, "severities", &mut errors, |number| {
        Level::try_from(number).ok()?.as_str_name().parse::<Severity>().ok()
    });
    if errors.is_empty() {
        Ok(Filter { states, severities, ..Filter::default() })
    } else {
        Err(Failure::Invalid(errors))
    }
}

fn named<T>(
    numbers: &[i32],
    field: &str,
    errors: &mut Vec<FieldError>,
    read: impl Fn(i32) -> Option<T>,
) -> Vec<T> {
    let mut found = Vec::new();
    for (index, number) in numbers.iter().enumerate() {
        match read(*number) {
            Some(value) => found.push(value),
            None => errors.push(FieldError::new(
                format!("{field}[{index}]"),
                format!("{number} is none: use a name, for example OPEN or CRITICAL"),
            )),
        }
    }
    found
}

/// Where a page ends; of whole microseconds, as the database has them.
fn key(alert: &Alert) -> String {
    format!("{} {}", alert.opened_at.timestamp_micros(), alert.id)
}

fn position(key: &str) -> Option<(DateTime<Utc>, Uuid)> {
    let (micros, id) = key.split_once(' ')?;
    Some((DateTime::from_timestamp_micros(micros.parse().ok()?)?, id.parse().ok()?))
}

async fn get(store: &Store, caller: &Caller, alert: &str) -> Result<v1::Alert, Failure> {
    let not_found = || Failure::NotFound { kind: "alert", name: alert.to_owned() };
    let id: Uuid = alert.parse().map_err(|_| not_found())?;
    let found = alert_life::find(store, caller.tenant_id, id).await?;
    let (found, history) = found.ok_or_else(not_found)?;
    Ok(message(found, history))
}

async fn act(store: &Store, caller: &Caller, alert: &str, deed: &Deed) -> Result<v1::Alert, Failure> {
    retrying(|| act_once(store, caller, alert, deed)).await?;
    get(store, caller, alert).await
}

async fn act_once(store: &Store, caller: &Caller, alert: &str, deed: &Deed) -> Result<(), Failure> {
    let not_found = || Failure::NotFound { kind: "alert", name: alert.to_owned() };
    let id: Uuid = alert.parse().map_err(|_| not_found())?;
    let mut client = store.client("change an alert").await?;
    let tx = client.begin("change an alert").await?;
    let locked = alert_life::lock(&tx, caller.tenant_id, id).await?.ok_or_else(not_found)?;
    // How often it is told again is decided when it is.
    let step = locked.life.on(deed.asked.event(locked.at), locked.at, Duration::ZERO);
    let step = step.map_err(|refused| Failure::Refused(format!("alert {alert} {refused}")))?;
    if step.life == locked.life {
        return Ok(());
    }
    let before = locked.to_tell.unwrap_or_else(|problem| {
        tracing::warn!(
            alert.id = %id,
            error = problem,
            "What somebody did with an alert before is not told: this release can't read it"
        );
        None
    });
    let to_tell = step.telling.filter(|telling| *telling != Telling::Opened).or(before);
    alert_life::live_on(&tx, &[(id, step.life, to_tell)], Some(&caller.token_name)).await?;
    let (what, action) = deed.asked.names();
    alert_life::record(&tx, &[(id, what, &deed.reason)], Some(&caller.token_name)).await?;
    let event = audit::alert(action, id, &deed.reason);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    tracing::info!(alert.id = %id, alert.did = what, actor = caller.token_name, "Somebody changed an alert");
    Ok(())
}

fn message(alert: Alert, history: Vec<Happened>) -> v1::Alert {
    let (resolve_time, resolution) = alert.resolved.unzip();
    let (acknowledge_time, acknowledged_by) = alert.acknowledged.unzip();
    let state = v1::alert::State::from_str_name(alert.state.as_str()).unwrap_or_default();
    let severity = Level::from_str_name(alert.severity.as_str()).unwrap_or_default();
    v1::Alert {
        id: alert.id.to_string(),
        subject: alert.subject,
        name: alert.name,
        job_id: alert.job_id.map(|job| job.to_string()).unwrap_or_default(),
        kind: alert.kind,
        cause: alert.cause,
        detail: alert.detail,
        severity: severity.into(),
        state: state.into(),
        first_occurrence: alert.first.map(time::timestamp),
        last_occurrence: alert.last.map(time::timestamp),
        count: alert.count,
        open_time: Some(time::timestamp(alert.opened_at)),
        resolve_time: resolve_time.map(time::timestamp),
        resolution: resolution.unwrap_or_default(),
        acknowledge_time: acknowledge_time.map(time::timestamp),
        acknowledged_by: acknowledged_by.unwrap_or_default(),
        silence_until: alert.silenced_until.map(time::timestamp),
        next_repeat_time: alert.next_repeat_at.map(time::timestamp),
        untold: alert.untold,
        explained_by: alert.explained_by.map(|id| id.to_string()).unwrap_or_default(),
        labels: alert.labels.into_iter().collect(),
        history: history.into_iter().map(event).collect(),
    }
}

fn event(happened: Happened) -> v1::AlertEvent {
    v1::AlertEvent {
        time: Some(time::timestamp(happened.at)),
        what: happened.what,
        actor: happened.actor.unwrap_or_default(),
        note: happened.note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_on_where_the_last_one_ended() {
        let at = DateTime::from_timestamp_micros(1_795_942_800_000_001).expect("in range");
        assert_eq!(position(&format!("{} {}", at.timestamp_micros(), Uuid::nil())), Some((at, Uuid::nil())));
        assert_eq!(position("yesterday"), None);
    }

    #[test]
    fn a_silence_has_one_end() {
        let minute = Some(prost_types::Duration { seconds: 60, nanos: 0 });
        let then = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
        let asked =
            |duration, until| silence(&v1::SilenceAlertRequest { duration, until, ..Default::default() });
        assert_eq!(asked(minute, None).expect("sound"), Asked::SilenceFor(Duration::from_secs(60)));
        assert!(matches!(asked(None, then), Ok(Asked::SilenceUntil(_))));
        assert!(asked(minute, then).is_err() && asked(None, None).is_err());
        let endless = Some(prost_types::Duration { seconds: 31 * 86_400, nanos: 0 });
        assert!(asked(endless, None).is_err());
    }
}
