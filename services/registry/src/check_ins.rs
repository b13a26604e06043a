//! Check-ins: create, get, list, update, pause, resume, delete, give another token. Tokens are shown once, when they are made,
//! and stored as hashes. What is reported comes in through [`report`].

mod definition;
pub mod report;

pub use definition::{Written, differences, expected, judge_at, read};

use crate::failure::{Failure, retrying, wrong};
use crate::limits::places::{Kind, Places};
use crate::registry::Registry;
use crate::tokens::new_secret;
use crate::{audit, page};
use chrono::{DateTime, Utc};
use model::check_in::{Definition, Reported};
use model::validate;
use rpc::auth::{Caller, Role};
use rpc::convert::time;
use rpc::v1;
use rpc::v1::check_in_service_server::CheckInService;
use store::check_in::{self, Change, CheckIn, NAME_TAKEN, New};
use store::{Store, Transaction, alert_channel, job_change};
use tonic::{Request, Response, Status};
use uuid::Uuid;

/// Reports that are shown with one check-in.
const REPORTS_SHOWN: i64 = 20;

#[tonic::async_trait]
impl CheckInService for Registry {
    async fn create_check_in(
        &self,
        request: Request<v1::CreateCheckInRequest>,
    ) -> Result<Response<v1::CheckIn>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let written = given(request.into_inner().check_in, None)?;
        let secret = new_secret()?;
        retrying(|| create(&self.store, &caller, &written, &secret)).await?;
        tracing::info!(check_in.name = written.name, actor = caller.token_name, "Created a check-in");
        let created = get(&self.store, &caller, &written.name).await?;
        Ok(Response::new(with_token(created, secret)))
    }

    async fn get_check_in(
        &self,
        request: Request<v1::GetCheckInRequest>,
    ) -> Result<Response<v1::CheckIn>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let name = request.into_inner().check_in;
        Ok(Response::new(get(&self.store, &caller, &name).await?))
    }

    async fn list_check_ins(
        &self,
        request: Request<v1::ListCheckInsRequest>,
    ) -> Result<Response<v1::ListCheckInsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let request = request.into_inner();
        let size = page::size(request.page_size)?;
        let after = page::last_key(&request.page_token)?.unwrap_or_default();
        let found = check_in::page(&self.store, caller.tenant_id, &after, size as i64 + 1).await;
        let mut found = found.map_err(Failure::from)?;
        let last = page::cut(&mut found, size).map(|last| page::token(&last.name));
        let check_ins = found.into_iter().map(|found| message(found, Vec::new())).collect();
        Ok(Response::new(v1::ListCheckInsResponse { check_ins, next_page_token: last.unwrap_or_default() }))
    }

    async fn update_check_in(
        &self,
        request: Request<v1::UpdateCheckInRequest>,
    ) -> Result<Response<v1::CheckIn>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let v1::UpdateCheckInRequest { name, check_in } = request.into_inner();
        let written = given(check_in, Some(name))?;
        let deed = Deed::Update(&written);
        retrying(|| change(&self.store, &caller, &written.name, &deed)).await?;
        Ok(Response::new(get(&self.store, &caller, &written.name).await?))
    }

    async fn delete_check_in(
        &self,
        request: Request<v1::DeleteCheckInRequest>,
    ) -> Result<Response<()>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let name = request.into_inner().check_in;
        retrying(|| change(&self.store, &caller, &name, &Deed::Delete)).await?;
        tracing::info!(check_in.name = name, actor = caller.token_name, "Deleted a check-in");
        Ok(Response::new(()))
    }

    async fn pause_check_in(
        &self,
        request: Request<v1::PauseCheckInRequest>,
    ) -> Result<Response<v1::CheckIn>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let name = request.into_inner().check_in;
        retrying(|| change(&self.store, &caller, &name, &Deed::Pause)).await?;
        Ok(Response::new(get(&self.store, &caller, &name).await?))
    }

    async fn resume_check_in(
        &self,
        request: Request<v1::ResumeCheckInRequest>,
    ) -> Result<Response<v1::CheckIn>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let name = request.into_inner().check_in;
        retrying(|| change(&self.store, &caller, &name, &Deed::Resume)).await?;
        Ok(Response::new(get(&self.store, &caller, &name).await?))
    }

    async fn rotate_check_in_token(
        &self,
        request: Request<v1::RotateCheckInTokenRequest>,
    ) -> Result<Response<v1::CheckIn>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let name = request.into_inner().check_in;
        let secret = new_secret()?;
        retrying(|| rotate(&self.store, &caller, &name, &secret)).await?;
        tracing::info!(check_in.name = name, actor = caller.token_name, "Gave a check-in another token");
        let found = get(&self.store, &caller, &name).await?;
        Ok(Response::new(with_token(found, secret)))
    }
}

/// A check-in as it is shown to whoever made its token.
fn with_token(found: v1::CheckIn, secret: String) -> v1::CheckIn {
    let path = format!("/v1/checkins/{secret}");
    v1::CheckIn { token: secret, path, ..found }
}

/// What somebody does with a check-in.
enum Deed<'a> {
    Update(&'a Written),
    Pause,
    Resume,
    Delete,
}

/// The check-in of a request; one that is updated has its name in the path, and may leave it out.
fn given(check_in: Option<v1::CheckIn>, named: Option<String>) -> Result<Written, Failure> {
    let missing = || wrong("checkIn", "is missing: give when it is expected, as schedule or period");
    let mut check_in = check_in.ok_or_else(missing)?;
    if let Some(name) = named {
        if validate::name("", &name).is_some() {
            return Err(not_found(&name));
        }
        if !check_in.name.is_empty() && check_in.name != name {
            let message =
                format!("{:?} is another name than {name:?}: a check-in keeps its name", check_in.name);
            return Err(wrong("name", message));
        }
        check_in.name = name;
    }
    definition::read(&check_in).map_err(Failure::Invalid)
}

fn not_found(name: &str) -> Failure {
    Failure::NotFound { kind: "check-in", name: name.to_owned() }
}

async fn get(store: &Store, caller: &Caller, name: &str) -> Result<v1::CheckIn, Failure> {
    let (found, reports) = find_with_reports(store, caller, name, REPORTS_SHOWN).await?;
    Ok(message(found, reports))
}

/// The caller's check-in of this name.
///
/// # Errors
/// [`Failure::NotFound`], the same whether another tenant has such a check-in or nobody.
pub async fn find(store: &Store, caller: &Caller, name: &str) -> Result<CheckIn, Failure> {
    Ok(find_with_reports(store, caller, name, 0).await?.0)
}

async fn find_with_reports(
    store: &Store,
    caller: &Caller,
    name: &str,
    reports: i64,
) -> Result<(CheckIn, Vec<Reported>), Failure> {
    if validate::name("", name).is_some() {
        return Err(not_found(name)); // no check-in has such a name
    }
    check_in::find(store, caller.tenant_id, name, reports).await?.ok_or_else(|| not_found(name))
}

/// Holds the channels that are named, and names those that don't exist.
async fn hold_channels(
    tx: &Transaction<'_>,
    caller: &Caller,
    definition: &Definition,
) -> Result<(), Failure> {
    let names: Vec<_> = definition.channels.iter().map(String::as_str).collect();
    let found = alert_channel::hold(tx, caller.tenant_id, &names).await?;
    let missing = names.iter().enumerate().filter(|(_, name)| !found.iter().any(|one| one.name == **name));
    let errors: Vec<_> = missing
        .map(|(index, name)| {
            let message = format!("there is no channel {name:?}: create it first");
            validate::FieldError::new(format!("channels[{index}]"), message)
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(Failure::Invalid(errors)) }
}

async fn create(store: &Store, caller: &Caller, written: &Written, secret: &str) -> Result<(), Failure> {
    let mut client = store.client("create a check-in").await?;
    let tx = client.begin("create a check-in").await?;
    Places::hold(&tx, caller).await?.check(&tx, caller, Kind::CheckIn, 1).await?;
    hold_channels(&tx, caller, &written.definition).await?;
    let at = job_change::now(&tx).await?;
    let id = Uuid::new_v4();
    let judge_at = definition::judge_at(&written.definition, id, at, at);
    let new = New { id, name: &written.name, definition: &written.definition, secret, judge_at };
    check_in::insert(&tx, caller.tenant_id, at, &new).await.map_err(|error| {
        if error.violates(NAME_TAKEN) {
            Failure::Exists { kind: "check-in", name: written.name.clone() }
        } else {
            error.into()
        }
    })?;
    let event = audit::check_in::created(id, &written.name, &written.definition);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(())
}

async fn change(store: &Store, caller: &Caller, name: &str, deed: &Deed<'_>) -> Result<(), Failure> {
    if validate::name("", name).is_some() {
        return Err(not_found(name));
    }
    let mut client = store.client("change a check-in").await?;
    let tx = client.begin("change a check-in").await?;
    if let Deed::Update(written) = deed {
        hold_channels(&tx, caller, &written.definition).await?;
    }
    let stored = check_in::lock(&tx, caller.tenant_id, name).await?.ok_or_else(|| not_found(name))?;
    let at = job_change::now(&tx).await?;
    let paused = stored.paused_at.is_some();
    let (definition, pause, event) = match deed {
        Deed::Update(written) => {
            if written.generation.is_some_and(|generation| generation != stored.generation) {
                let expected = written.generation.unwrap_or_default();
                return Err(Failure::CheckInChangedSince {
                    name: stored.name,
                    expected,
                    stored: stored.generation,
                });
            }
            (&written.definition, paused, audit::check_in::changed(&stored, &written.definition))
        }
        Deed::Pause => (&stored.definition, true, audit::check_in::paused(&stored)),
        Deed::Resume => (&stored.definition, false, audit::check_in::resumed(&stored)),
        Deed::Delete => (&stored.definition, paused, audit::check_in::deleted(&stored)),
    };
    let deleted = matches!(deed, Deed::Delete);
    if !deleted && pause == paused && *definition == stored.definition {
        return Ok(());
    }
    let due = definition::expected(&stored, definition, pause, deleted, at);
    check_in::change(&tx, stored.id, at, Change { definition, paused: pause, deleted, due }).await?;
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(())
}

async fn rotate(store: &Store, caller: &Caller, name: &str, secret: &str) -> Result<(), Failure> {
    if validate::name("", name).is_some() {
        return Err(not_found(name));
    }
    let mut client = store.client("rotate a token").await?;
    let tx = client.begin("rotate a token").await?;
    let stored = check_in::lock(&tx, caller.tenant_id, name).await?.ok_or_else(|| not_found(name))?;
    let at = job_change::now(&tx).await?;
    check_in::rotate(&tx, stored.id, at, secret).await?;
    let event = audit::check_in::rotated(&stored);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(())
}

fn message(found: CheckIn, reports: Vec<Reported>) -> v1::CheckIn {
    let deadline = next_deadline(&found);
    let [last_start, last_success, last_failure] = found.last.map(|last| last.map(time::timestamp));
    v1::CheckIn {
        generation: found.generation,
        id: found.id.to_string(),
        create_time: Some(time::timestamp(found.created_at)),
        update_time: Some(time::timestamp(found.updated_at)),
        paused: found.paused_at.is_some(),
        pause_time: found.paused_at.map(time::timestamp),
        last_start_time: last_start,
        last_success_time: last_success,
        last_failure_time: last_failure,
        missing: found.missing,
        next_deadline: deadline.map(time::timestamp),
        reports: reports.into_iter().map(shown).collect(),
        ..definition::write(found.name, found.definition)
    }
}

/// By when the next success is expected, after the last one and what is judged.
fn next_deadline(found: &CheckIn) -> Option<DateTime<Utc>> {
    if found.paused_at.is_some() {
        return None;
    }
    let success = found.last[1].filter(|_| found.definition.period.is_some());
    let from = success.map_or(found.judged_through, |at| at.max(found.judged_through));
    definition::deadline(&found.definition, found.id, found.created_at, from)
}

fn shown(reported: Reported) -> v1::CheckInReport {
    v1::CheckInReport {
        time: Some(time::timestamp(reported.at)),
        kind: reported.what.as_str().to_owned(),
        message: reported.message,
    }
}
