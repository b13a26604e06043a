//! Tenants: create, get, list, limit. Operators only, but for a tenant's look at itself.
//!
//! Invariant: a caller learns nothing of a tenant that is not its own: another one is as absent as none.

mod written;

use crate::failure::{Failure, retrying, wrong};
use crate::page;
use crate::registry::Registry;
use model::ids::TenantId;
use model::validate;
use rpc::auth::{Caller, Role};
use rpc::convert::time;
use rpc::v1;
use rpc::v1::tenant_service_server::TenantService;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::audit::Event;
use store::tenant::{self, Tenant, Use};
use store::{Store, Transaction, job_change, tenant_limit};
use tonic::{Request, Response, Status};
use written::Limits;

/// How a caller names its own tenant.
const OWN: &str = "-";

#[tonic::async_trait]
impl TenantService for Registry {
    async fn create_tenant(
        &self,
        request: Request<v1::CreateTenantRequest>,
    ) -> Result<Response<v1::Tenant>, Status> {
        let caller = Caller::operator(&request)?.clone();
        let given = request.into_inner().tenant;
        let given = given.ok_or_else(|| wrong("tenant", "is missing: give the tenant's name"))?;
        let name = validate::name("name", &given.name).into_iter();
        let (limits, errors) = Limits::read(given.limits.as_ref());
        let errors: Vec<_> = name.chain(errors).collect();
        if !errors.is_empty() {
            return Err(Failure::Invalid(errors).into());
        }
        let created = retrying(|| create(&self.store, &caller, &given.name, &limits)).await?;
        tracing::info!(
            tenant.name = created.name,
            tenant.id = created.id,
            actor = caller.token_name,
            "Created a tenant"
        );
        Ok(Response::new(created))
    }

    async fn get_tenant(
        &self,
        request: Request<v1::GetTenantRequest>,
    ) -> Result<Response<v1::Tenant>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(get(&self.store, &caller, &request.into_inner().tenant).await?))
    }

    async fn list_tenants(
        &self,
        request: Request<v1::ListTenantsRequest>,
    ) -> Result<Response<v1::ListTenantsResponse>, Status> {
        Caller::operator(&request)?;
        Ok(Response::new(list(&self.store, &request.into_inner()).await?))
    }

    async fn update_tenant(
        &self,
        request: Request<v1::UpdateTenantRequest>,
    ) -> Result<Response<v1::Tenant>, Status> {
        let caller = Caller::operator(&request)?.clone();
        let v1::UpdateTenantRequest { name, tenant } = request.into_inner();
        let given = tenant.ok_or_else(|| wrong("tenant", "is missing: give the tenant's limits"))?;
        let mut errors = Vec::new();
        if !given.name.is_empty() && given.name != name {
            let message = format!("{:?} is not {name:?}: a tenant keeps its name", given.name);
            errors.push(validate::FieldError::new("name", message));
        }
        let (limits, wrong) = Limits::read(given.limits.as_ref());
        errors.extend(wrong);
        if !errors.is_empty() {
            return Err(Failure::Invalid(errors).into());
        }
        let updated = retrying(|| update(&self.store, &caller, &name, given.generation, &limits)).await?;
        tracing::info!(
            tenant.name = updated.name,
            tenant.id = updated.id,
            actor = caller.token_name,
            "Changed a tenant's limits"
        );
        Ok(Response::new(updated))
    }
}

async fn create(store: &Store, caller: &Caller, name: &str, limits: &Limits) -> Result<v1::Tenant, Failure> {
    let mut client = store.client("create a tenant").await?;
    let tx = client.begin("create a tenant").await?;
    let created_at = job_change::now(&tx).await?;
    let new = Tenant { id: TenantId::random(), name: name.to_owned(), created_at };
    tenant::insert(&tx, &new).await.map_err(|error| {
        if error.violates(tenant::NAME_TAKEN) {
            Failure::Exists { kind: "tenant", name: name.to_owned() }
        } else {
            error.into()
        }
    })?;
    tenant_limit::hold(&tx, new.id).await?;
    write(&tx, new.id, limits).await?;
    let detail = json!({ "id": new.id, "after": limits.shown() });
    record(&tx, caller, "tenant.create", &new, detail).await?;
    let created = message(&tx, new).await?;
    tx.commit().await?;
    Ok(created)
}

async fn get(store: &Store, caller: &Caller, name: &str) -> Result<v1::Tenant, Failure> {
    let mut client = store.client("read a tenant").await?;
    let tx = client.begin("read a tenant").await?;
    let found = match name {
        OWN => tenant::by_id(&tx, caller.tenant_id).await?,
        _ => find(&tx, name).await?,
    };
    let theirs = found.filter(|found| found.id == caller.tenant_id || caller.is_operator());
    message(&tx, theirs.ok_or_else(|| not_found(name))?).await
}

async fn list(store: &Store, request: &v1::ListTenantsRequest) -> Result<v1::ListTenantsResponse, Failure> {
    let size = page::size(request.page_size)?;
    let after = page::last_key(&request.page_token)?.unwrap_or_default();
    let mut client = store.client("list tenants").await?;
    let tx = client.begin("list tenants").await?;
    let mut found = tenant::page(&tx, &after, size as i64 + 1).await?;
    let next = page::cut(&mut found, size).map(|last| page::token(&last.name)).unwrap_or_default();
    let ids: Vec<_> = found.iter().map(|tenant| tenant.id).collect();
    let uses = tenant::uses(&tx, &ids).await?;
    let mut tenants = Vec::with_capacity(found.len());
    for tenant in found {
        tenants.push(described(&tx, tenant, &uses).await?);
    }
    Ok(v1::ListTenantsResponse { tenants, next_page_token: next })
}

async fn update(
    store: &Store,
    caller: &Caller,
    name: &str,
    generation: i64,
    limits: &Limits,
) -> Result<v1::Tenant, Failure> {
    let mut client = store.client("limit a tenant").await?;
    let tx = client.begin("limit a tenant").await?;
    let found = find(&tx, name).await?.ok_or_else(|| not_found(name))?;
    tenant_limit::hold(&tx, found.id).await?;
    let before = stored(&tx, found.id).await?.ok_or_else(|| not_found(name))?;
    if generation != 0 && generation != before.1 {
        return Err(Failure::TenantChangedSince { name: found.name, expected: generation, stored: before.1 });
    }
    if before.0 != *limits {
        write(&tx, found.id, limits).await?;
        let detail = json!({ "id": found.id, "before": before.0.shown(), "after": limits.shown() });
        record(&tx, caller, "tenant.update", &found, detail).await?;
    }
    let updated = message(&tx, found).await?;
    tx.commit().await?;
    Ok(updated)
}

async fn find(tx: &Transaction<'_>, name: &str) -> Result<Option<Tenant>, Failure> {
    if validate::name("", name).is_some() {
        return Ok(None); // no tenant has such a name
    }
    Ok(tenant::by_name(tx, name).await?)
}

fn not_found(name: &str) -> Failure {
    Failure::NotFound { kind: "tenant", name: name.to_owned() }
}

async fn write(tx: &Transaction<'_>, tenant: TenantId, limits: &Limits) -> Result<(), Failure> {
    tenant_limit::set(tx, tenant, &limits.definitions).await?;
    if !tenant::set(tx, tenant, &limits.workers).await? {
        return Err(Failure::Overtaken); // a tenant is never deleted
    }
    Ok(())
}

/// A tenant's limits, and how often they were changed.
async fn stored(tx: &Transaction<'_>, id: TenantId) -> Result<Option<(Limits, i64)>, Failure> {
    let (workers, definitions) = (tenant::read(tx, id).await?, tenant_limit::read(tx, id).await?);
    let both = workers.zip(definitions);
    Ok(both.map(|(workers, stored)| (Limits { workers, definitions: stored.limits }, stored.generation.0)))
}

async fn message(tx: &Transaction<'_>, tenant: Tenant) -> Result<v1::Tenant, Failure> {
    let uses = tenant::uses(tx, &[tenant.id]).await?;
    described(tx, tenant, &uses).await
}

async fn described(
    tx: &Transaction<'_>,
    tenant: Tenant,
    uses: &BTreeMap<TenantId, Use>,
) -> Result<v1::Tenant, Failure> {
    let (limits, generation) = stored(tx, tenant.id).await?.ok_or_else(|| not_found(&tenant.name))?;
    let Use { jobs, running } = uses.get(&tenant.id).copied().unwrap_or_default();
    Ok(v1::Tenant {
        id: tenant.id.to_string(),
        name: tenant.name,
        create_time: Some(time::timestamp(tenant.created_at)),
        limits: Some(limits.message()),
        generation,
        r#use: Some(v1::TenantUse { jobs, running }),
    })
}

/// Recorded in the operators' tenant, and in the one that it is about.
async fn record(
    tx: &Transaction<'_>,
    caller: &Caller,
    action: &'static str,
    tenant: &Tenant,
    detail: Value,
) -> Result<(), Failure> {
    let event = Event { action, object: format!("tenant/{}", tenant.name), detail };
    let events = [event];
    store::audit::record(tx, caller.tenant_id, &caller.token_name, &events).await?;
    if tenant.id != caller.tenant_id {
        store::audit::record(tx, tenant.id, &caller.token_name, &events).await?;
    }
    Ok(())
}
