//! Tokens: make, get, list, revoke. A secret comes out once, in the answer that makes it.
//!
//! Invariant: a caller manages its own tenant's tokens; only an operator names another tenant, and everybody else is
//! refused alike whether there is such a tenant or not.

use crate::auth;
use crate::failure::{Failure, retrying, wrong};
use crate::page;
use crate::registry::Registry;
use chrono::{DateTime, Utc};
use model::ids::TenantId;
use model::validate::{self, FieldError};
use rpc::auth::{Caller, Role};
use rpc::convert::time;
use rpc::v1;
use rpc::v1::token_service_server::TokenService;
use serde_json::json;
use store::api_token::{self, Listed, NewToken, NotRevoked, Page, Scope};
use store::audit::Event;
use store::{Store, Transaction, job_change, tenant, tenant_limit};
use tonic::{Request, Response, Status};
use uuid::Uuid;

#[tonic::async_trait]
impl TokenService for Registry {
    async fn create_token(
        &self,
        request: Request<v1::CreateTokenRequest>,
    ) -> Result<Response<v1::Token>, Status> {
        let caller = Caller::of(&request, Role::Admin)?.clone();
        let written = Written::read(request.into_inner()).map_err(Failure::Invalid)?;
        let secret = new_secret()?;
        let token = retrying(|| create(&self.store, &caller, &written, &secret)).await?;
        tracing::info!(
            token.id = %token.id, token.name = token.name, token.role = role_text(token.role),
            actor = caller.token_name, "Made a token"
        );
        Ok(Response::new(v1::Token { secret, ..message(token) }))
    }

    async fn get_token(&self, request: Request<v1::GetTokenRequest>) -> Result<Response<v1::Token>, Status> {
        let caller = Caller::of(&request, Role::Admin)?.clone();
        let request = request.into_inner();
        let found = look(&self.store, &caller, &request.tenant, &request.token).await?;
        Ok(Response::new(message(found)))
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let caller = Caller::of(&request, Role::Admin)?.clone();
        Ok(Response::new(list(&self.store, &caller, &request.into_inner()).await?))
    }

    async fn revoke_token(&self, request: Request<v1::RevokeTokenRequest>) -> Result<Response<()>, Status> {
        let caller = Caller::of(&request, Role::Admin)?.clone();
        let v1::RevokeTokenRequest { token, tenant } = request.into_inner();
        let revoked = retrying(|| revoke(&self.store, &caller, &tenant, &token)).await?;
        tracing::info!(
            token.id = %revoked.id, token.name = revoked.name, actor = caller.token_name, "Revoked a token"
        );
        Ok(Response::new(()))
    }
}

/// A new secret, of a token or of a check-in.
///
/// # Errors
/// [`Failure::Broken`] when the operating system has no randomness to give.
pub fn new_secret() -> Result<String, Failure> {
    api_token::new_secret().map_err(|error| {
        tracing::error!(%error, "The operating system gives no random numbers");
        Failure::Broken("drawing a secret")
    })
}

/// A token as a person asks for it.
pub struct Written {
    name: String,
    role: Role,
    expires_at: Option<DateTime<Utc>>,
    tenant: String,
    every_tenant: bool,
}

impl Written {
    /// Reads a token that is to be, and finds everything that is wrong with it.
    ///
    /// # Errors
    /// Every wrong field, as the API spells it.
    pub fn read(request: v1::CreateTokenRequest) -> Result<Self, Vec<FieldError>> {
        let v1::CreateTokenRequest { name, role, expire_time, tenant, every_tenant } = request;
        let mut errors: Vec<_> = validate::name("name", &name).into_iter().collect();
        let role = match role.to_lowercase().parse::<Role>() {
            Ok(role) => Some(role),
            Err(_) if role.is_empty() => {
                errors.push(FieldError::new("role", "is missing: use admin, editor, viewer or worker"));
                None
            }
            Err(error) => {
                errors.push(FieldError::new("role", error.to_string()));
                None
            }
        };
        let expires_at = expire_time.map(|at| time::instant("expireTime", Some(&at))).transpose();
        let expires_at = expires_at.unwrap_or_else(|error| {
            errors.push(error);
            None
        });
        if every_tenant && role.is_some_and(|role| role != Role::Worker) {
            errors.push(FieldError::new(
                "everyTenant",
                "only a worker's token can be every tenant's: use role worker",
            ));
        }
        if every_tenant && !tenant.is_empty() {
            errors.push(FieldError::new("tenant", "is given together with everyTenant: use one"));
        }
        match role {
            Some(role) if errors.is_empty() => Ok(Self { name, role, expires_at, tenant, every_tenant }),
            _ => Err(errors),
        }
    }
}

async fn create(store: &Store, caller: &Caller, written: &Written, secret: &str) -> Result<Listed, Failure> {
    let mut client = store.client("make a token").await?;
    let tx = client.begin("make a token").await?;
    let scope = scope(&tx, caller, &written.tenant).await?;
    if written.every_tenant && !caller.is_operator() {
        return Err(Failure::OperatorsOnly);
    }
    tenant_limit::hold(&tx, scope.tenant).await?;
    let at = job_change::now(&tx).await?;
    if written.expires_at.is_some_and(|expires_at| expires_at <= at) {
        return Err(wrong("expireTime", "is over: use an instant that is to come, or none"));
    }
    if api_token::named(&tx, scope, &written.name).await?.iter().any(|token| token.name == written.name) {
        return Err(Failure::Exists { kind: "token", name: written.name.clone() });
    }
    let token = NewToken {
        tenant: (!written.every_tenant).then_some(scope.tenant),
        name: &written.name,
        role: stored_role(written.role),
        secret,
    };
    let id = api_token::issue(&tx, &token, written.expires_at, &caller.token_name).await?;
    let made = one(api_token::named(&tx, scope, &id.to_string()).await?, &written.name)?;
    record(&tx, caller, scope.tenant, "token.create", &json!({ "after": shown(&made) }), &made).await?;
    tx.commit().await?;
    Ok(made)
}

async fn look(store: &Store, caller: &Caller, tenant: &str, token: &str) -> Result<Listed, Failure> {
    let mut client = store.client("find a token").await?;
    let tx = client.begin("find a token").await?;
    let scope = scope(&tx, caller, tenant).await?;
    find(&tx, scope, token).await
}

async fn list(
    store: &Store,
    caller: &Caller,
    request: &v1::ListTokensRequest,
) -> Result<v1::ListTokensResponse, Failure> {
    let size = page::size(request.page_size)?;
    let after = page::last_key(&request.page_token)?;
    let after = after.as_deref().map(read_key).transpose()?.unwrap_or_default();
    let scope = {
        let mut client = store.client("list tokens").await?;
        let tx = client.begin("list tokens").await?;
        scope(&tx, caller, &request.tenant).await?
    };
    let asked = Page { after: (&after.0, after.1), revoked: request.show_revoked, limit: size as i64 + 1 };
    let mut tokens = api_token::page(store, scope, asked).await?;
    let next = page::cut(&mut tokens, size).map(|last| page::token(&format!("{}\n{}", last.name, last.id)));
    let tokens = tokens.into_iter().map(message).collect();
    Ok(v1::ListTokensResponse { tokens, next_page_token: next.unwrap_or_default() })
}

/// The name and id in a page token.
fn read_key(key: &str) -> Result<(String, Uuid), Failure> {
    let parts = key.rsplit_once('\n').and_then(|(name, id)| Some((name.to_owned(), id.parse().ok()?)));
    parts.ok_or_else(page::bad_token)
}

async fn revoke(store: &Store, caller: &Caller, tenant: &str, token: &str) -> Result<Listed, Failure> {
    let mut client = store.client("revoke a token").await?;
    let tx = client.begin("revoke a token").await?;
    let scope = scope(&tx, caller, tenant).await?;
    let found = find(&tx, scope, token).await?;
    if found.revoked_at.is_some() {
        return Err(not_found(token));
    }
    // Operators can make another one for a tenant that is not theirs.
    let last_too = scope.tenant != caller.tenant_id;
    match api_token::revoke(&tx, &found, last_too).await? {
        Ok(()) => {}
        Err(NotRevoked::Already) => return Err(not_found(token)),
        Err(NotRevoked::LastAdmin) => {
            return Err(Failure::Refused(format!(
                "token {:?} is the last one of an administrator, and without one nobody could make another: make one \
                 first, with role admin, and revoke this one with it",
                found.name
            )));
        }
    }
    record(&tx, caller, scope.tenant, "token.revoke", &json!({ "before": shown(&found) }), &found).await?;
    tx.commit().await?;
    Ok(found)
}

/// Whose tokens a request is about: the caller's tenant's unless it names one.
///
/// # Errors
/// [`Failure::OperatorsOnly`] for any other tenant, there or not, when the caller is no operator.
async fn scope(tx: &Transaction<'_>, caller: &Caller, named: &str) -> Result<Scope, Failure> {
    let own = |tenant: TenantId| Scope { tenant, every_tenant: tenant == TenantId::DEFAULT };
    if named.is_empty() {
        return Ok(own(caller.tenant_id));
    }
    let sound = validate::name("tenant", named).is_none();
    let found = if sound { tenant::by_name(tx, named).await? } else { None };
    match found {
        Some(found) if found.id == caller.tenant_id || caller.is_operator() => Ok(own(found.id)),
        None if caller.is_operator() => Err(Failure::NotFound { kind: "tenant", name: named.to_owned() }),
        _ => Err(Failure::OperatorsOnly),
    }
}

async fn find(tx: &Transaction<'_>, scope: Scope, name_or_id: &str) -> Result<Listed, Failure> {
    if name_or_id.contains('\0') {
        return Err(not_found(name_or_id)); // PostgreSQL refuses such a text
    }
    one(api_token::named(tx, scope, name_or_id).await?, name_or_id)
}

/// The only one.
fn one(mut found: Vec<Listed>, name_or_id: &str) -> Result<Listed, Failure> {
    let last = found.pop().ok_or_else(|| not_found(name_or_id))?;
    if found.is_empty() {
        return Ok(last);
    }
    Err(Failure::Refused(format!("several tokens are named {name_or_id:?}: give the id of one of them")))
}

fn not_found(name_or_id: &str) -> Failure {
    Failure::NotFound { kind: "token", name: name_or_id.to_owned() }
}

async fn record(
    tx: &Transaction<'_>,
    caller: &Caller,
    tenant: TenantId,
    action: &'static str,
    detail: &serde_json::Value,
    token: &Listed,
) -> Result<(), Failure> {
    let event = Event { action, object: format!("token/{}", token.name), detail: detail.clone() };
    Ok(store::audit::record(tx, tenant, &caller.token_name, &[event]).await?)
}

/// A token in the audit trail.
fn shown(token: &Listed) -> serde_json::Value {
    json!({
        "id": token.id,
        "role": role_text(token.role),
        "prefix": token.prefix,
        "expireTime": token.expires_at.map(model::ids::instant_text),
        "everyTenant": token.tenant.is_none(),
    })
}

const fn role_text(role: api_token::Role) -> &'static str {
    auth::role(role).as_str()
}

const fn stored_role(role: Role) -> api_token::Role {
    match role {
        Role::Admin => api_token::Role::Admin,
        Role::Editor => api_token::Role::Editor,
        Role::Viewer => api_token::Role::Viewer,
        Role::Worker => api_token::Role::Worker,
    }
}

fn message(token: Listed) -> v1::Token {
    v1::Token {
        id: token.id.to_string(),
        role: role_text(token.role).to_owned(),
        every_tenant: token.tenant.is_none(),
        name: token.name,
        prefix: token.prefix,
        secret: String::new(),
        create_time: Some(time::timestamp(token.created_at)),
        creator: token.created_by.unwrap_or_default(),
        expire_time: token.expires_at.map(time::timestamp),
        last_use_time: token.last_used_at.map(time::timestamp),
        revoke_time: token.revoked_at.map(time::timestamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_field_of_a_token_is_named() {
        let request = v1::CreateTokenRequest {
            name: "CI".to_owned(),
            role: "root".to_owned(),
            expire_time: Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }),
            tenant: "acme".to_owned(),
            every_tenant: true,
        };
        let errors = Written::read(request).err().expect("wrong");
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["name", "role", "expireTime", "tenant"]);
    }

    #[test]
    fn a_roles_case_does_not_matter_and_only_workers_are_every_tenants() {
        let request = |role: &str, every_tenant| v1::CreateTokenRequest {
            name: "ci".to_owned(),
            role: role.to_owned(),
            every_tenant,
            ..v1::CreateTokenRequest::default()
        };
        assert!(Written::read(request("VIEWER", false)).is_ok_and(|written| written.role == Role::Viewer));
        assert!(Written::read(request("worker", true)).is_ok());
        assert!(Written::read(request("admin", true)).is_err());
        assert!(Written::read(request("", false)).is_err());
    }

    #[test]
    fn page_tokens_hold_a_name_and_an_id() {
        let id = Uuid::from_u128(7);
        assert_eq!(read_key(&format!("ci\n{id}")).expect("ours"), ("ci".to_owned(), id));
        assert!(read_key("ci").is_err());
    }
}
