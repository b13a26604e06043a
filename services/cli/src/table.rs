//! Tables for people, and the few formats that their cells need.

use crate::arguments::{Format, Output};
use crate::failure::FAILED;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;
use std::io::Write;
use std::sync::OnceLock;

/// How answers are printed for programs; chosen once, by the arguments.
static FORMAT: OnceLock<Format> = OnceLock::new();

/// Prints from now on as `format` says.
pub fn choose(format: Format) -> Output {
    FORMAT.get_or_init(|| format);
    if format == Format::Table { Output::Table } else { Output::Json }
}

/// Prints a line. A reader that has seen enough, such as `head`, ends the command in peace.
macro_rules! say {
    ($($text:tt)*) => { $crate::table::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Prints a line whether or not somebody still reads: a stack goes on when its terminal has gone.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write;
        writeln!(std::io::stdout(), $($text)*).ok();
    }};
}
pub(crate) use tell;

/// Prints rows under headings, each column as wide as it must be.
pub fn print(headings: &[&str], rows: &[Vec<String>]) {
    say!("{}", render(headings, rows));
}

/// See [`say!`].
pub fn line(text: std::fmt::Arguments<'_>) {
    wrote(writeln!(std::io::stdout(), "{text}"));
}

/// Writes bytes as they are, at once; like [`say!`] when they can't be.
pub fn raw(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    wrote(out.write_all(bytes).and_then(|()| out.flush()));
}

/// Ends the command when nothing more can be written: in peace when nobody reads on.
fn wrote(written: std::io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            eprintln!("escapement: writing to standard output: {error}");
            std::process::exit(FAILED.into());
        }
    }
}

fn render(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(&mut headings.iter().copied());
    let body = rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
    std::iter::once(head).chain(body).collect::<Vec<_>>().join("\n")
}

/// Prints the API's own answer, in the format that was chosen.
pub fn print_json(value: &Value) {
    let text = in_format(value, format());
    // Without a name there is no line: a program would take an empty one for a name.
    if !text.is_empty() {
        say!("{text}");
    }
}

/// Prints the API's own answer about alerts: what they have as a name is what they are about, and their id is what
/// commands take.
pub fn print_alerts_json(answer: &Value) {
    match format() {
        Format::Name => ids(answer).iter().for_each(|id| say!("{id}")),
        _ => print_json(answer),
    }
}

/// The id of an alert, or of each in a list of them.
fn ids(answer: &Value) -> Vec<&str> {
    match answer["alerts"].as_array() {
        Some(alerts) => alerts.iter().filter_map(|alert| alert["id"].as_str()).collect(),
        None => answer["id"].as_str().into_iter().collect(),
    }
}

/// Prints the API's own answer to what was done with `name`, which need not be in it.
pub fn print_json_of(name: &str, value: &Value) {
    match format() {
        Format::Name => say!("{name}"),
        _ => print_json(value),
    }
}

fn format() -> Format {
    FORMAT.get().copied().unwrap_or(Format::Json)
}

/// Prints one of many events: JSON on a line of its own, YAML as a document.
pub fn print_event(value: &Value) {
    say!("{}", event(value, format()));
}

fn event(value: &Value, format: Format) -> String {
    match format {
        Format::Name => text(&value["name"]),
        Format::Yaml => format!("---\n{}", in_format(value, format)),
        Format::Table | Format::Json => value.to_string(),
    }
}

fn in_format(value: &Value, format: Format) -> String {
    match format {
        Format::Table | Format::Json => format!("{value:#}"),
        // A value of JSON has nothing that YAML can't write.
        Format::Yaml => serde_yaml_ng::to_string(value).unwrap_or_default().trim_end().to_owned(),
        Format::Name => names(value).join("\n"),
    }
}

/// The name of a thing, or of each thing in a list of them; the id of what has no name, or its role.
fn names(value: &Value) -> Vec<String> {
    let own = |value: &Value| {
        let text = |key: &&str| value[*key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        ["name", "id", "role"].iter().find_map(text)
    };
    if let Some(name) = own(value) {
        return vec![name];
    }
    let lists = value.as_object().into_iter().flat_map(serde_json::Map::values).filter_map(Value::as_array);
    lists.flatten().filter_map(own).collect()
}

/// A text field, or a dash.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => "-".to_owned(),
    }
}

/// An instant to the second in UTC, or a dash.
pub fn second(value: &Value) -> String {
    instant(value).map_or_else(|| "-".to_owned(), |at| at.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// An instant in UTC as names of runs have it, or a dash.
pub fn exact(value: &Value) -> String {
    instant(value).map_or_else(|| "-".to_owned(), |at| at.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// An instant, when the field has one.
pub fn instant(value: &Value) -> Option<DateTime<Utc>> {
    value.as_str().and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::{Format, event, exact, ids, in_format, render};
    use serde_json::json;

    #[test]
    fn answers_are_printed_as_asked_for() {
        let list = json!({ "tokens": [{ "id": "1", "name": "ci" }, { "id": "2", "name": "" }], "more": "" });
        assert_eq!(in_format(&list, Format::Name), "ci\n2");
        assert_eq!(in_format(&list["tokens"][0], Format::Name), "ci");
        assert_eq!(in_format(&list["tokens"][0], Format::Yaml), "id: '1'\nname: ci");
        assert!(in_format(&list, Format::Json).starts_with("{\n"));
        assert_eq!(in_format(&json!({ "jobs": [] }), Format::Name), "");
    }

    #[test]
    fn alerts_are_named_by_what_commands_take() {
        let alert = json!({ "id": "1", "name": "invoices" });
        assert_eq!(ids(&alert), ["1"]);
        assert_eq!(ids(&json!({ "alerts": [alert], "nextPageToken": "" })), ["1"]);
    }

    #[test]
    fn an_instant_keeps_the_fraction_that_names_its_run() {
        assert_eq!(exact(&json!("2026-11-29T09:00:00.120Z")), "2026-11-29T09:00:00.120Z");
        assert_eq!(exact(&json!("2026-11-29T09:00:00Z")), "2026-11-29T09:00:00Z");
    }

    #[test]
    fn events_are_told_apart_in_each_format() {
        let run = json!({ "name": "a@2026-11-29T09:00:00Z", "state": "FAILED" });
        assert_eq!(event(&run, Format::Name), "a@2026-11-29T09:00:00Z");
        assert_eq!(event(&run, Format::Yaml), "---\nname: a@2026-11-29T09:00:00Z\nstate: FAILED");
        assert!(event(&run, Format::Json).starts_with('{') && !event(&run, Format::Json).contains('\n'));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![vec!["invoices".to_owned(), "1".to_owned()], vec!["é".to_owned(), "12".to_owned()]];
        assert_eq!(render(&["JOB", "RUNS"], &rows), "JOB       RUNS\ninvoices  1\né         12");
    }
}
