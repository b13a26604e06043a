//! `escapement channels create|list|get|delete|test|deliveries`.

use crate::arguments::{
    ChannelAction, ChannelCommon, ChannelDeliveries, ChannelTarget, Channels, Encryption, Level, Output,
};
use crate::client::{Client, encode};
use crate::table::{self, say};
use anyhow::bail;
use serde_json::{Map, Value, json};

const COLLECTION: &str = "/v1/channels";

pub async fn run(client: &Client, channels: &Channels, output: Output) -> anyhow::Result<()> {
    let path = |name: &str| format!("{COLLECTION}/{}", encode(name));
    let (answer, done) = match &channels.action {
        ChannelAction::Create(target) => (client.post(COLLECTION, &definition(target)).await?, "created"),
        ChannelAction::Delete(one) => (client.delete(&path(&one.name)).await?, "deleted"),
        ChannelAction::Get(one) => {
            let channel = client.get(&path(&one.name)).await?;
            match output {
                Output::Json => table::print_json(&channel),
                Output::Table => print(&[channel]),
            }
            return Ok(());
        }
        ChannelAction::List => {
            let channels = client.list(COLLECTION, "channels").await?;
            match output {
                Output::Json => table::print_json(&json!({ "channels": channels })),
                Output::Table => print(&channels),
            }
            return Ok(());
        }
        ChannelAction::Test(one) => {
            let answer = client.post(&format!("{}:test", path(&one.name)), &json!({})).await?;
            return tested(&one.name, &answer, output);
        }
        ChannelAction::Deliveries(asked) => return deliveries(client, asked, output).await,
    };
    match (output, &channels.action) {
        (Output::Json, ChannelAction::Delete(one)) => table::print_json_of(&one.name, &answer),
        (Output::Json, _) => table::print_json(&answer),
        (Output::Table, ChannelAction::Delete(one)) => say!("channel {} {done}", one.name),
        (Output::Table, _) => say!("channel {} {done}", table::text(&answer["name"])),
    }
    Ok(())
}

/// A new channel as the API takes it.
fn definition(target: &ChannelTarget) -> Value {
    let (common, kind, mut settings, secret) = match target {
        ChannelTarget::Webhook { common, url } => (common, "webhook", json!({ "url": url }), "secret"),
        ChannelTarget::Alertmanager { common, url, username } => {
            (common, "alertmanager", json!({ "url": url, "username": username }), "secret")
        }
        ChannelTarget::Pagerduty { common, url } => {
            (common, "pagerduty", json!({ "url": url }), "routingKey")
        }
        ChannelTarget::Slack { common } => (common, "slack", json!({}), "url"),
        ChannelTarget::Email { common, host, port, tls, username, from, to } => {
            let tls = match tls {
                Encryption::Starttls => "STARTTLS",
                Encryption::Tls => "TLS",
                Encryption::None => "NONE",
            };
            let port = port.unwrap_or_default();
            let settings = json!({ "host": host, "port": port, "tls": tls, "username": username, "from": from, "to": to });
            (common, "email", settings, "password")
        }
    };
    if let Some(value) = &common.secret {
        settings[secret] = json!(value);
    }
    let mut channel = json!({ "name": common.name, kind: settings });
    if let Some(wanted) = wanted(common) {
        channel["match"] = wanted;
    }
    if common.no_system {
        channel["system"] = json!(false);
    }
    channel
}

/// Which alerts it wants; none for all.
fn wanted(common: &ChannelCommon) -> Option<Value> {
    if common.labels.is_empty() && common.severities.is_empty() {
        return None;
    }
    let labels: Map<_, _> = common.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let severity = |level: &Level| match level {
        Level::Info => "INFO",
        Level::Warning => "WARNING",
        Level::Critical => "CRITICAL",
    };
    let severities: Vec<_> = common.severities.iter().map(severity).collect();
    Some(json!({ "labels": labels, "severities": severities }))
}

/// Channels, by kind and where they lead.
pub fn print(channels: &[Value]) {
    let row = |channel: &Value| {
        let (kind, leads) = leads(channel);
        vec![table::text(&channel["name"]), kind.to_owned(), leads, wants(channel)]
    };
    table::print(&["CHANNEL", "KIND", "LEADS TO", "WANTS"], &channels.iter().map(row).collect::<Vec<_>>());
}

fn leads(channel: &Value) -> (&'static str, String) {
    for kind in ["webhook", "alertmanager", "pagerduty"] {
        if channel[kind].is_object() {
            return (kind, table::text(&channel[kind]["url"]));
        }
    }
    let email = &channel["email"];
    if !email.is_object() {
        return ("slack", "-".to_owned());
    }
    let to: Vec<_> = email["to"].as_array().into_iter().flatten().map(table::text).collect();
    ("email", format!("{} by {}:{}", to.join(", "), table::text(&email["host"]), table::text(&email["port"])))
}

fn wants(channel: &Value) -> String {
    let wanted = &channel["match"];
    let severities = wanted["severities"].as_array().into_iter().flatten().map(table::text);
    let labels = wanted["labels"].as_object().into_iter().flatten();
    let labels = labels.map(|(name, value)| format!("{name}={}", table::text(value)));
    let all: Vec<String> = severities.chain(labels).collect();
    if all.is_empty() { "all".to_owned() } else { all.join(" ") }
}

fn tested(name: &str, answer: &Value, output: Output) -> anyhow::Result<()> {
    if output == Output::Json {
        table::print_json_of(name, answer);
    }
    let status = answer["status"].as_i64().unwrap_or_default();
    if answer["received"] != true {
        bail!("channel {name}: the test was not received: {}", table::text(&answer["error"]));
    }
    if output == Output::Table {
        say!("channel {name}: the test was received, with {status}");
    }
    Ok(())
}

async fn deliveries(client: &Client, asked: &ChannelDeliveries, output: Output) -> anyhow::Result<()> {
    let path = format!("{COLLECTION}/{}/deliveries?pageSize={}", encode(&asked.name), asked.limit);
    let answer = client.get(&path).await?;
    if output == Output::Json {
        table::print_json(&answer);
        return Ok(());
    }
    let row = |told: &Value| {
        vec![
            table::second(&told["createTime"]),
            table::text(&told["event"]).to_lowercase(),
            table::text(&told["state"]).to_lowercase(),
            table::text(&told["tries"]),
            match told["status"].as_i64() {
                None | Some(0) => "-".to_owned(),
                Some(status) => status.to_string(),
            },
            table::second(if told["endTime"].is_string() { &told["endTime"] } else { &told["nextTryTime"] }),
            table::text(&told["alert"]),
            table::text(&told["error"]),
        ]
    };
    let rows: Vec<_> = answer["deliveries"].as_array().into_iter().flatten().map(row).collect();
    table::print(
        &["CREATED (UTC)", "EVENT", "STATE", "TRIES", "STATUS", "ENDED OR NEXT", "ALERT", "ERROR"],
        &rows,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn typed(words: &str) -> Value {
        let words = ["escapement", "channels", "create"].into_iter().chain(words.split(' '));
        let arguments = Arguments::try_parse_from(words).expect("sound words");
        match arguments.command {
            Command::Channels(Channels { action: ChannelAction::Create(target) }) => definition(&target),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_typed_becomes_a_channel_of_its_kind() {
        assert_eq!(
            typed("webhook a --url http://x/ --severity critical --label team=billing --no-system"),
            json!({ "name": "a", "webhook": { "url": "http://x/" }, "system": false,
                    "match": { "labels": { "team": "billing" }, "severities": ["CRITICAL"] } })
        );
        assert_eq!(
            typed("pagerduty b --secret k"),
            json!({ "name": "b", "pagerduty": { "url": "", "routingKey": "k" } })
        );
        assert_eq!(
            typed("slack c --secret http://s/"),
            json!({ "name": "c", "slack": { "url": "http://s/" } })
        );
        let email = typed("email d --host mail --from a@b --to c@d --to e@f --tls tls");
        assert_eq!(email["email"]["to"], json!(["c@d", "e@f"]));
        assert_eq!((&email["email"]["tls"], &email["email"]["port"]), (&json!("TLS"), &json!(0)));
    }

    #[test]
    fn a_channel_is_shown_with_where_it_leads_and_what_it_wants() {
        let mail = json!({ "name": "d", "email": { "to": ["c@d"], "host": "mail", "port": 587 } });
        assert_eq!(leads(&mail), ("email", "c@d by mail:587".to_owned()));
        assert_eq!(leads(&json!({ "slack": {} })), ("slack", "-".to_owned()));
        assert_eq!(wants(&mail), "all");
        let wanted = json!({ "match": { "severities": ["INFO"], "labels": { "a": "b" } } });
        assert_eq!(wants(&wanted), "INFO a=b");
    }
}
