//! What the audit trail says of channels: each field before and after, but of a secret only that there is one or that it
//! changed, and of an address its host: paths and queries of webhooks are often secrets.

use super::{LEFT_OUT, told};
use model::channel::Target;
use serde_json::{Map, Value, json};
use store::alert_channel::Channel;
use store::audit::Event;

/// A channel was stored.
pub fn created(channel: &Channel) -> Event {
    event("channel.create", channel, json!({ "after": shown(channel) }))
}

/// A channel was changed.
pub fn changed(before: &Channel, after: &Channel) -> Event {
    event("channel.update", after, json!({ "changed": changes(before, after) }))
}

/// A channel was deleted.
pub fn deleted(channel: &Channel) -> Event {
    event("channel.delete", channel, json!({ "before": shown(channel) }))
}

fn event(action: &'static str, channel: &Channel, detail: Value) -> Event {
    Event { action, object: format!("channel/{}", channel.name), detail }
}

/// The fields that differ, also when they differ only in what is left out.
fn changes(before: &Channel, after: &Channel) -> Map<String, Value> {
    let (shown_before, shown_after) = (shown(before), shown(after));
    let hidden = |field: &str| match field {
        "secret" => before.secret != after.secret,
        "host" => address(&before.target) != address(&after.target),
        _ => false,
    };
    told(&shown_before, &shown_after, |field| {
        shown_before.get(field) != shown_after.get(field) || hidden(field)
    })
}

fn shown(channel: &Channel) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |field: &str, value: Value| drop(fields.insert(field.to_owned(), value));
    put("kind", json!(channel.target.kind()));
    put("secret", json!(channel.secret.as_ref().map(|_| LEFT_OUT)));
    put("match", json!(channel.accepts));
    put("system", json!(channel.system));
    put("host", json!(address(&channel.target).map(host)));
    match &channel.target {
        Target::Alertmanager { username, .. } => put("username", json!(username)),
        Target::Email(email) => {
            put("host", json!(email.host));
            put("port", json!(email.port));
            put("tls", json!(email.tls));
            put("username", json!(email.username));
            put("from", json!(email.from));
            put("to", json!(email.to));
        }
        Target::Webhook { .. } | Target::Pagerduty { .. } | Target::Slack => {}
    }
    fields
}

/// The URL that a channel posts to, if it is no secret.
fn address(target: &Target) -> Option<&str> {
    match target {
        Target::Webhook { url } | Target::Alertmanager { url, .. } | Target::Pagerduty { url } => Some(url),
        Target::Slack | Target::Email(_) => None,
    }
}

/// Without what may be a secret.
fn host(url: &str) -> &str {
    let authority = url.split("//").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
    let authority = authority.unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use model::channel::Accepts;
    use model::ids::TenantId;

    fn channel(url: &str, secret: &str) -> Channel {
        Channel {
            id: uuid::Uuid::nil(),
            tenant_id: TenantId::DEFAULT,
            name: "oncall".to_owned(),
            target: Target::Webhook { url: url.to_owned() },
            secret: Some(secret.to_owned()),
            accepts: Accepts::default(),
            system: None,
            created_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn before_and_after_are_there_without_secrets_paths_and_users() {
        let before = channel("https://u:s3cret@hooks.example/s3cret?x=s3cret", "s3cret");
        let after =
            Channel { system: Some(true), ..channel("https://hooks.example/other-s3cret", "new-s3cret") };
        let told = changed(&before, &after).detail;
        let hosts = json!({ "before": "hooks.example", "after": "hooks.example" });
        let system = json!({ "before": null, "after": true });
        let secret = json!({ "before": LEFT_OUT, "after": LEFT_OUT });
        assert_eq!(told, json!({ "changed": { "host": hosts, "secret": secret, "system": system } }));
        for (event, side) in [(created(&before), "after"), (deleted(&before), "before")] {
            assert_eq!(event.detail[side]["host"], "hooks.example");
            assert_eq!(event.detail[side]["secret"], LEFT_OUT);
            assert!(!event.detail.to_string().contains("s3cret"), "{}", event.detail);
        }
    }

    #[test]
    fn another_kind_shows_what_came_and_what_went() {
        let before = Channel {
            target: Target::Alertmanager { url: "http://am/".to_owned(), username: "u".to_owned() },
            ..channel("", "s3cret")
        };
        let told = changed(&before, &channel("http://am/", "s3cret")).detail;
        assert_eq!(told["changed"]["username"], json!({ "before": "u", "after": null }));
        assert_eq!(told["changed"]["kind"]["after"], "WEBHOOK");
        assert_eq!(told["changed"].as_object().map(Map::len), Some(2));
    }
}
