//! Channels: create, get, list, delete. Secrets go in and never come out.

use crate::audit;
use crate::failure::{Failure, retrying, wrong};
use crate::registry::Registry;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::validate::{self, FieldError};
use rpc::auth::{Caller, Role};
use rpc::convert::time;
use rpc::v1;
use rpc::v1::channel::Target;
use rpc::v1::channel_service_server::ChannelService;
use store::alert_channel::{self, Channel};
use store::{Store, job_change};
use tonic::{Request, Response, Status};
use uuid::Uuid;

/// Bytes of an address.
const URL_BYTES_MAX: usize = 2_048;
/// How a signing secret begins.
const SECRET_PREFIX: &str = "whsec_";
/// Bytes of a signing secret, decoded.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

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
        Ok(Response::new(message(created)))
    }

    async fn get_channel(
        &self,
        request: Request<v1::GetChannelRequest>,
    ) -> Result<Response<v1::Channel>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let name = request.into_inner().channel;
        Ok(Response::new(message(get(&self.store, &caller, &name).await?)))
    }

    async fn list_channels(
        &self,
        request: Request<v1::ListChannelsRequest>,
    ) -> Result<Response<v1::ListChannelsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?;
        let channels = alert_channel::page(&self.store, caller.tenant_id).await.map_err(Failure::from)?;
        let channels = channels.into_iter().map(message).collect();
        Ok(Response::new(v1::ListChannelsResponse { channels }))
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
}

/// A channel as a person wrote it.
#[derive(Clone)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// Where it posts to.
    pub url: String,
    /// What it signs with.
    pub secret: Option<String>,
}

impl Written {
    /// As it is to be stored: the same one with another target, or a new one. No secret keeps the stored one, for
    /// whoever writes back what was read never saw it.
    pub fn over(&self, stored: Option<&Channel>, at: chrono::DateTime<chrono::Utc>) -> Channel {
        Channel {
            id: stored.map_or_else(Uuid::new_v4, |stored| stored.id),
            name: self.name.clone(),
            url: self.url.clone(),
            secret: self.secret.clone().or_else(|| stored.and_then(|stored| stored.secret.clone())),
            created_at: stored.map_or(at, |stored| stored.created_at),
        }
    }
}

/// Reads a channel and finds everything that is wrong with it.
///
/// # Errors
/// Every wrong field, as the API spells it.
pub fn read(channel: &v1::Channel) -> Result<Written, Vec<FieldError>> {
    let mut errors: Vec<_> = validate::name("name", &channel.name).into_iter().collect();
    let Some(Target::Webhook(webhook)) = &channel.target else {
        errors.push(FieldError::new("webhook", "is missing: give where to post to, as webhook.url"));
        return Err(errors);
    };
    if webhook.url.len() > URL_BYTES_MAX {
        let message = format!("has {} bytes: use at most {URL_BYTES_MAX}", webhook.url.len());
        errors.push(FieldError::new("webhook.url", message));
    } else if let Some(problem) = validate::url_problem(&webhook.url) {
        errors.push(FieldError::new("webhook.url", problem));
    }
    if !webhook.secret.is_empty() && !is_secret(&webhook.secret) {
        // The value is not repeated: it may be a secret of something else.
        let message = "use whsec_ and base64 of 24 to 64 bytes, or none for unsigned posts";
        errors.push(FieldError::new("webhook.secret", message));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let secret = (!webhook.secret.is_empty()).then(|| webhook.secret.clone());
    Ok(Written { name: channel.name.clone(), url: webhook.url.clone(), secret })
}

fn is_secret(text: &str) -> bool {
    let bytes = text.strip_prefix(SECRET_PREFIX).and_then(|base64| STANDARD.decode(base64).ok());
    bytes.is_some_and(|bytes| SECRET_BYTES.contains(&bytes.len()))
}

fn message(channel: Channel) -> v1::Channel {
    v1::Channel {
        name: channel.name,
        target: Some(Target::Webhook(v1::Webhook { url: channel.url, secret: String::new() })),
        create_time: Some(time::timestamp(channel.created_at)),
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

async fn create(store: &Store, caller: &Caller, written: &Written) -> Result<Channel, Failure> {
    let mut client = store.client("create a channel").await?;
    let tx = client.begin("create a channel").await?;
    let at = job_change::now(&tx).await?;
    let channel = written.over(None, at);
    let stored = alert_channel::insert(&tx, caller.tenant_id, at, std::slice::from_ref(&channel)).await;
    stored.map_err(|error| {
        if error.violates(alert_channel::NAME_TAKEN) {
            Failure::Exists { kind: "channel", name: written.name.clone() }
        } else {
            error.into()
        }
    })?;
    let event = audit::channel("channel.create", &channel);
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
    if let Some(job) = alert_channel::used_by(&tx, caller.tenant_id, name).await? {
        return Err(Failure::InUse { channel: channel.name, job });
    }
    alert_channel::delete(&tx, channel.id).await?;
    let event = audit::channel("channel.delete", &channel);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(url: &str, secret: &str) -> v1::Channel {
        v1::Channel {
            name: "oncall".to_owned(),
            target: Some(Target::Webhook(v1::Webhook { url: url.to_owned(), secret: secret.to_owned() })),
            create_time: None,
        }
    }

    fn wrong_fields(channel: &v1::Channel) -> Vec<String> {
        read(channel).err().unwrap_or_default().into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn every_wrong_field_is_named_and_no_secret_is_repeated() {
        let mut bad = channel("ftp://x", "hunter2");
        bad.name = "On Call".to_owned();
        assert_eq!(wrong_fields(&bad), ["name", "webhook.url", "webhook.secret"]);
        let errors = read(&bad).err().expect("wrong");
        assert!(errors.iter().all(|error| !error.message.contains("hunter2")), "{errors:?}");
        bad.target = None;
        assert_eq!(wrong_fields(&bad), ["name", "webhook"]);
    }

    #[test]
    fn signing_secrets_are_whsec_and_24_to_64_bytes() {
        let secret = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for (text, sound) in [
            (secret(24), true),
            (secret(64), true),
            (secret(23), false),
            (secret(65), false),
            ("whsec_not base64".to_owned(), false),
        ] {
            assert_eq!(wrong_fields(&channel("http://x/", &text)).is_empty(), sound, "{text}");
        }
    }

    #[test]
    fn a_secret_that_is_not_given_again_is_kept() {
        let at = chrono::DateTime::UNIX_EPOCH;
        let signed = channel("http://x/", &format!("whsec_{}", STANDARD.encode([7; 24])));
        let stored = read(&signed).expect("sound").over(None, at);
        let again = read(&channel("http://y/", "")).expect("sound").over(Some(&stored), at);
        assert_eq!((again.id, again.secret), (stored.id, stored.secret));
    }
}
