//! `escapement preview "0 9 * * 1-5" --timezone Europe/Berlin`, `--job NAME`, or `--herd`.

use crate::arguments::{CalendarRule, DstFold, DstGap, Output, Preview};
use crate::client::Client;
use crate::command::herd;
use crate::table::{self, say};
use serde_json::{Map, Value, json};

pub async fn run(client: &Client, preview: &Preview, output: Output) -> anyhow::Result<()> {
    if preview.herd {
        return herd::run(client, preview, output).await;
    }
    let answer = client.post("/v1/schedule:preview", &request(preview)).await?;
    match output {
        Output::Json => table::print_json(&answer),
        Output::Table => print(&answer),
    }
    Ok(())
}

fn request(preview: &Preview) -> Value {
    let texts = [
        ("schedule", &preview.schedule),
        ("job", &preview.job),
        ("timezone", &preview.timezone),
        ("startsAt", &preview.starts_at),
        ("endsAt", &preview.ends_at),
        ("from", &preview.from),
    ];
    let given = texts.into_iter().filter_map(|(field, text)| Some((field.to_owned(), json!(text.as_ref()?))));
    let mut request: Map<String, Value> = given.collect();
    request.insert("count".to_owned(), json!(preview.count));
    let gap = preview.dst_gap.map(|gap| match gap {
        DstGap::RunAfter => "RUN_AFTER",
        DstGap::Skip => "SKIP",
    });
    let fold = preview.dst_fold.map(|fold| match fold {
        DstFold::First => "FIRST",
        DstFold::Second => "SECOND",
        DstFold::Both => "BOTH",
    });
    let rule = preview.rule.map(|rule| match rule {
        CalendarRule::Skip => "SKIP",
        CalendarRule::NextDay => "NEXT_DAY",
        CalendarRule::PreviousDay => "PREVIOUS_DAY",
    });
    let direction = preview.previous.then_some("PREVIOUS");
    for (field, name) in [("dstGap", gap), ("dstFold", fold), ("direction", direction)] {
        request.extend(name.map(|name| (field.to_owned(), json!(name))));
    }
    if !preview.exclude.is_empty() || !preview.only.is_empty() || rule.is_some() {
        let mut calendars = json!({ "exclude": preview.exclude, "only": preview.only });
        if let Some(rule) = rule {
            calendars["rule"] = json!(rule);
        }
        request.insert("calendars".to_owned(), calendars);
    }
    Value::Object(request)
}

fn print(answer: &Value) {
    say!("{}.\n", table::text(&answer["description"]));
    let row = |occurrence: &Value| {
        // What does not happen has no instant.
        let time =
            if occurrence["dropped"] == true { "-".to_owned() } else { table::second(&occurrence["time"]) };
        let note = occurrence["note"].as_str().unwrap_or_default().to_owned();
        vec![time, table::text(&occurrence["local"]), note]
    };
    let rows: Vec<_> = answer["occurrences"].as_array().into_iter().flatten().map(row).collect();
    table::print(&["TIME (UTC)", "LOCAL", "NOTE"], &rows);
    let more = if answer["exhausted"] == true { "There are no more. " } else { "" };
    say!("\n{more}Timezone data: {}.", table::text(&answer["tzdata"]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn asked(arguments: &str) -> Value {
        let words = std::iter::once("escapement").chain(arguments.split('|'));
        match Arguments::try_parse_from(words).expect(arguments).command {
            Command::Preview(preview) => request(&preview),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_is_given_is_asked() {
        assert_eq!(asked("preview|0 9 * * 1-5"), json!({ "schedule": "0 9 * * 1-5", "count": 10 }));
        assert_eq!(
            asked(
                "preview|0 9 * * *|--timezone|Europe/Berlin|--dst-gap|skip|--exclude|holidays|--rule|next-day|--previous"
            ),
            json!({
                "schedule": "0 9 * * *",
                "timezone": "Europe/Berlin",
                "dstGap": "SKIP",
                "direction": "PREVIOUS",
                "calendars": { "exclude": ["holidays"], "only": [], "rule": "NEXT_DAY" },
                "count": 10,
            })
        );
        assert_eq!(asked("preview|--job|invoices|-n|3"), json!({ "job": "invoices", "count": 3 }));
    }

    #[test]
    fn a_job_brings_its_own_schedule() {
        for wrong in ["preview", "preview|0 9 * * *|--job|invoices", "preview|--job|invoices|--timezone|UTC"]
        {
            let words = std::iter::once("escapement").chain(wrong.split('|'));
            assert!(Arguments::try_parse_from(words).is_err(), "{wrong}");
        }
    }
}
