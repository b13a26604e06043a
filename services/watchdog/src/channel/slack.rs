//! Slack's incoming webhooks: a message of blocks, and the same in short as text for notifications.
//!
//! `&`, `<` and `>` of our texts are escaped, as Slack asks, so that nobody's job name mentions a channel or links
//! anywhere. Lengths are cut to Slack's limits, which count what is escaped.

use super::{Outcome, headline, http};
use crate::message::Message;
use model::ids::instant_text;
use serde_json::{Value, json};
use service::egress::Egress;
use std::time::Duration;

/// Characters of a header block's text.
const HEADER_CHARS_MAX: usize = 150;
/// Characters of a section block's text.
const SECTION_CHARS_MAX: usize = 3_000;
/// Characters of one field of a section block.
const FIELD_CHARS_MAX: usize = 2_000;

/// Sends it once.
pub async fn send(egress: &Egress, url: &str, message: &Message, timeout: Duration) -> Outcome {
    http::post(egress, url, body(message).to_string(), timeout, |request| request).await
}

fn body(message: &Message) -> Value {
    let title = format!("{}: {}", headline(message.event), message.subject.name());
    let mut blocks = vec![
        json!({ "type": "header", "text": { "type": "plain_text", "text": escaped(&title, HEADER_CHARS_MAX), "emoji": false } }),
        section(escaped(&message.summary, SECTION_CHARS_MAX)),
        json!({ "type": "section", "fields": [
            field("Severity", message.severity.as_str()),
            field("Since", &instant_text(message.since)),
            field("Cause", &message.cause),
            field("Count", &message.count.to_string()),
        ] }),
    ];
    if !message.examples.is_empty() {
        blocks.push(section(escaped(
            &format!("Among them: {}", message.examples.join(", ")),
            SECTION_CHARS_MAX,
        )));
    }
    if !message.is_end() {
        let what_to_do = escaped(&message.what_to_do, SECTION_CHARS_MAX - 20);
        blocks.push(section(format!("*What to do*\n{what_to_do}")));
    }
    if let Some(link) = &message.link {
        blocks.push(section(format!("<{}|Show in Escapement>", escaped(link, FIELD_CHARS_MAX))));
    }
    json!({ "text": escaped(&format!("{title}: {}", message.summary), SECTION_CHARS_MAX), "blocks": blocks })
}

fn section(text: String) -> Value {
    json!({ "type": "section", "text": { "type": "mrkdwn", "text": text } })
}

fn field(name: &str, value: &str) -> Value {
    json!({ "type": "mrkdwn", "text": format!("*{name}*\n{}", escaped(value, FIELD_CHARS_MAX - 20)) })
}

/// A text with Slack's three control characters escaped; `max` characters at most, escapes counted and never cut through.
fn escaped(text: &str, max: usize) -> String {
    let (mut escaped, mut length) = (String::new(), 0);
    for c in text.chars() {
        let (part, size) = match c {
            '&' => (Some("&amp;"), 5),
            '<' => (Some("&lt;"), 4),
            '>' => (Some("&gt;"), 4),
            _ => (None, 1),
        };
        if length + size > max - 1 {
            escaped.push('…');
            break;
        }
        length += size;
        match part {
            Some(part) => escaped.push_str(part),
            None => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_never_cut_through() {
        assert_eq!(escaped("<!channel> & co", 100), "&lt;!channel&gt; &amp; co");
        assert_eq!(escaped("<<<<", 10), "&lt;&lt;…");
        assert_eq!(escaped("abc", 4), "abc");
    }
}
