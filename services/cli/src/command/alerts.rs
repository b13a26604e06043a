//! `escapement alerts list|get|ack|silence|resolve`.

use crate::arguments::{AlertAction, AlertList, AlertSilence, Alerts, Level, Output};
use crate::client::{Client, encode};
use crate::table::{self, say};
use serde_json::{Value, json};

pub async fn run(client: &Client, alerts: &Alerts, output: Output) -> anyhow::Result<()> {
    let (alert, verb, body) = match &alerts.action {
        AlertAction::List(list) => return print_list(client, list, output).await,
        AlertAction::Get(get) => {
            let alert = client.get(&format!("/v1/alerts/{}", encode(&get.alert))).await?;
            print_one(&alert, output);
            return Ok(());
        }
        AlertAction::Ack(deed) => (&deed.alert, "acknowledge", json!({ "reason": deed.reason })),
        AlertAction::Resolve(deed) => (&deed.alert, "resolve", json!({ "reason": deed.reason })),
        AlertAction::Silence(silence) => (&silence.alert, "silence", silence_body(silence)),
    };
    let alert = client.post(&format!("/v1/alerts/{}:{verb}", encode(alert)), &body).await?;
    match output {
        Output::Json => table::print_alerts_json(&alert),
        Output::Table => say!("{}", became(&alert)),
    }
    Ok(())
}

fn silence_body(silence: &AlertSilence) -> Value {
    match &silence.length {
        Some(length) => json!({ "duration": length, "reason": silence.reason }),
        None => json!({ "until": silence.until, "reason": silence.reason }),
    }
}

/// What an alert is after somebody did something with it.
fn became(alert: &Value) -> String {
    let (id, name) = (table::text(&alert["id"]), table::text(&alert["name"]));
    match alert["state"].as_str() {
        Some("ACKNOWLEDGED") => {
            format!("alert {id} of {name} is acknowledged by {}", table::text(&alert["acknowledgedBy"]))
        }
        Some("SILENCED") => {
            format!("alert {id} of {name} is silenced until {}", table::second(&alert["silenceUntil"]))
        }
        Some("RESOLVED") => {
            format!("alert {id} of {name} is resolved since {}", table::second(&alert["resolveTime"]))
        }
        _ => format!("alert {id} of {name} is open"),
    }
}

async fn print_list(client: &Client, list: &AlertList, output: Output) -> anyhow::Result<()> {
    let mut path = format!("/v1/alerts?pageSize={}", list.limit);
    if !list.all {
        path.push_str("&states=OPEN&states=ACKNOWLEDGED&states=SILENCED");
    }
    for (name, value) in [("job", &list.job), ("checkIn", &list.check_in)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    for severity in &list.severity {
        path.push_str(match severity {
            Level::Info => "&severities=INFO",
            Level::Warning => "&severities=WARNING",
            Level::Critical => "&severities=CRITICAL",
        });
    }
    let answer = client.get(&path).await?;
    match output {
        Output::Json => table::print_alerts_json(&answer),
        Output::Table => print_table(answer["alerts"].as_array().map_or(&[], Vec::as_slice)),
    }
    Ok(())
}

fn print_table(alerts: &[Value]) {
    let row = |alert: &Value| {
        vec![
            table::text(&alert["id"]),
            table::second(&alert["openTime"]),
            table::text(&alert["severity"]).to_lowercase(),
            table::text(&alert["name"]),
            table::text(&alert["kind"]),
            table::text(&alert["cause"]),
            table::text(&alert["count"]),
            table::text(&alert["state"]).to_lowercase(),
        ]
    };
    let rows: Vec<_> = alerts.iter().map(row).collect();
    table::print(&["ALERT", "OPENED (UTC)", "SEVERITY", "OF", "KIND", "CAUSE", "COUNT", "STATE"], &rows);
}

fn print_one(alert: &Value, output: Output) {
    if output == Output::Json {
        table::print_alerts_json(alert);
        return;
    }
    print_table(std::slice::from_ref(alert));
    say!("{}", table::text(&alert["detail"]));
    let history = alert["history"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |event: &Value| {
        let who = match table::text(&event["actor"]).as_str() {
            "-" => "watchdog".to_owned(),
            actor => actor.to_owned(),
        };
        vec![
            table::second(&event["time"]),
            table::text(&event["what"]).to_lowercase(),
            who,
            table::text(&event["note"]),
        ]
    };
    let rows: Vec<_> = history.iter().map(row).collect();
    table::print(&["TIME (UTC)", "WHAT", "WHO", "NOTE"], &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_became_is_said_in_a_sentence() {
        let alert = json!({"id": "1", "name": "invoices", "state": "ACKNOWLEDGED", "acknowledgedBy": "ann"});
        assert_eq!(became(&alert), "alert 1 of invoices is acknowledged by ann");
        let open = json!({"id": "1", "name": "invoices", "state": "OPEN"});
        assert_eq!(became(&open), "alert 1 of invoices is open");
    }
}
