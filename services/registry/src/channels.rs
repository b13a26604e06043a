//! Channels: create, get, list, delete, test, and what was told to them. Secrets go in and never come out.

mod definition;
mod told;

pub use definition::{Written, differences, read};

use crate::failure::{Failure, retrying, wrong};
use crate::limits::places::{Kind, Places};
use crate::registry::Registry;
use crate::{audit, page};
use model::validate;
use rpc::auth::{Caller, Role};
use rpc::v1;
use rpc::v1::channel_service_server::ChannelService;
use store::alert_channel::{self, Channel};
use store::{Store, job_change};
use tonic::{Request, Response, Status};

/// Jobs and check-ins that are named when a channel can't be deleted because of them.
const USERS_NAMED: i64 = 5;

#[tonic::async_trait]
impl ChannelService for Registry {
    async fn create_channel(
        &self,
        request: Request<v1::CreateChannelRequest>,
    ) -> Result<Response<v1::Channel>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let given = request.into_inner().channel;
        let given = given.ok_or_else(|| wrong("channel", "is missing: give the channel's definition"))?;
        let written = read(&given).map_err(Failure::Invalid)?;
        let created = retrying(|| create(&self.store, &caller, &written)).await?;
        tracing::info!(channel.name = created.name, actor = caller.token_name, "Created a channel");
        Ok(Response::new(definition::message(created, caller.role)))
    }

    async fn get_channel(
        &self,
        request: Request<v1::GetChannelRequest>,
    ) -> Result<Response<v1::Channel>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let name = request.into_inner().channel;
        Ok(Response::new(definition::message(get(&self.store, &caller, &name).await?, caller.role)))
    }

    async fn list_channels(
        &self,
        request: Request<v1::ListChannelsRequest>,
    ) -> Result<Response<v1::ListChannelsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(list(&self.store, &caller, &request.into_inner()).await?))
    }

    async fn delete_channel(
        &self,
        request: Request<v1::DeleteChannelRequest>,
    ) -> Result<Response<()>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let name = request.into_inner().channel;
        retrying(|| delete(&self.store, &caller, &name)).await?;
        tracing::info!(channel.name = name, actor = caller.token_name, "Deleted a channel");
        Ok(Response::new(()))
    }

    async fn test_channel(
        &self,
        request: Request<v1::TestChannelRequest>,
    ) -> Result<Response<v1::TestChannelResponse>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let name = request.into_inner().channel;
        let channel = get(&self.store, &caller, &name).await?;
        tracing::info!(channel.name = name, actor = caller.token_name, "Asked for a test of a channel");
        Ok(Response::new(told::test(&self.store, &channel).await?))
    }

    async fn list_deliveries(
        &self,
        request: Request<v1::ListDeliveriesRequest>,
    ) -> Result<Response<v1::ListDeliveriesResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let request = request.into_inner();
        let channel = get(&self.store, &caller, &request.channel).await?;
        Ok(Response::new(told::list(&self.store, &channel, &request).await?))
    }
}

fn not_found(name: &str) -> Failure {
    Failure::NotFound { kind: "channel", name: name.to_owned() }
}

async fn get(store: &Store, caller: &Caller, name: &str) -> Result<Channel, Failure> {
    if validate::name("", name).is_some() {
        return Err(not_found(name)); // no channel has such a name
    }
    alert_channel::find(store, caller.tenant_id, name).await?.ok_or_else(|| not_found(name))
}

async fn list(
    store: &Store,
    caller: &Caller,
    request: &v1::ListChannelsRequest,
) -> Result<v1::ListChannelsResponse, Failure> {
    let size = page::size(request.page_size)?;
    let after = page::last_key(&request.page_token)?.unwrap_or_default();
    let mut channels = alert_channel::page(store, caller.tenant_id, &after, size + 1).await?;
    let next_page_token = page::cut(&mut channels, size).map(|last| page::token(&last.name));
    Ok(v1::ListChannelsResponse {
        channels: channels.into_iter().map(|channel| definition::message(channel, caller.role)).collect(),
        next_page_token: next_page_token.unwrap_or_default(),
    })
}

async fn create(store: &Store, caller: &Caller, written: &Written) -> Result<Channel, Failure> {
    let mut client = store.client("create a channel").await?;
    let tx = client.begin("create a channel").await?;
    Places::hold(&tx, caller).await?.check(&tx, caller, Kind::Channel, 1).await?;
    let at = job_change::now(&tx).await?;
    let channel = written.over(None, caller.tenant_id, at);
    let channel = channel.map_err(|error| Failure::Invalid(vec![error]))?;
    let stored = alert_channel::insert(&tx, caller.tenant_id, at, std::slice::from_ref(&channel)).await;
    stored.map_err(|error| {
        if error.violates(alert_channel::NAME_TAKEN) {
            Failure::Exists { kind: "channel", name: written.name.clone() }
        } else {
            error.into()
        }
    })?;
    let event = audit::channel::created(&channel);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(channel)
}

async fn delete(store: &Store, caller: &Caller, name: &str) -> Result<(), Failure> {
    get(store, caller, name).await?;
    let mut client = store.client("delete a channel").await?;
    let tx = client.begin("delete a channel").await?;
    let found = alert_channel::lock(&tx, caller.tenant_id, &[name]).await?;
    let channel = found.into_iter().next().ok_or_else(|| not_found(name))?;
    let mut users = alert_channel::used_by(&tx, caller.tenant_id, name, USERS_NAMED + 1).await?;
    if !users.is_empty() {
        let more = users.len() as i64 > USERS_NAMED;
        users.truncate(USERS_NAMED as usize);
        return Err(Failure::InUse { channel: channel.name, users, more });
    }
    alert_channel::delete(&tx, channel.id).await?;
    let event = audit::channel::deleted(&channel);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(())
}
