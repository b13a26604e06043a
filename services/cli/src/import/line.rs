//! One line of a crontab, read as cron reads it.

/// What a line holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    Blank,
    /// Without its `#`.
    Comment(&'a str),
    /// `NAME = value`, without quotes around either.
    Setting(&'a str, &'a str),
    Entry(Entry<'a>),
    /// Something else, and why it can't be read.
    Wrong(String),
}

/// A schedule and what it starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Five fields with single spaces between them, or `@word`.
    pub schedule: String,
    /// Of a system crontab.
    pub user: Option<&'a str>,
    /// As it is written, with its `%`.
    pub command: &'a str,
}

/// Reads a line; `system`: a user stands before the command, as in /etc/crontab and /etc/cron.d.
pub fn read(line: &str, system: bool) -> Line<'_> {
    let line = line.trim();
    if line.is_empty() {
        return Line::Blank;
    }
    if let Some(comment) = line.strip_prefix('#') {
        return Line::Comment(comment.trim());
    }
    setting(line).unwrap_or_else(|| entry(line, system))
}

fn setting(line: &str) -> Option<Line<'_>> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (unquoted(name.trim()), unquoted(value.trim()));
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (begins && word).then_some(Line::Setting(name, value))
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn entry(line: &str, system: bool) -> Line<'_> {
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let mut rest = line;
    let mut schedule = Vec::with_capacity(fields);
    for _ in 0..fields {
        let Some((field, after)) = word(rest) else {
            return Line::Wrong(format!(
                "{} of {fields} fields and no command: use `minute hour day-of-month month day-of-week command`",
                schedule.len() + usize::from(!rest.is_empty())
            ));
        };
        schedule.push(field);
        rest = after;
    }
    let schedule = schedule.join(" ");
    let (user, command) = match (system, word(rest)) {
        (false, _) => (None, rest),
        (true, Some((user, command))) => (Some(user), command),
        (true, None) => {
            return Line::Wrong(format!(
                "{rest:?} alone after the fields: a system crontab has a user and a command there"
            ));
        }
    };
    Line::Entry(Entry { schedule, user, command })
}

/// The first word, and what follows it, if anything does.
fn word(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_once([' ', '\t'])?;
    let rest = rest.trim_start();
    (!rest.is_empty()).then_some((word, rest))
}

/// A command and its standard input: what follows the first bare `%`, where further ones are ends of lines. `\%` is a
/// percent sign.
pub fn parts(command: &str) -> (String, Option<String>) {
    let (mut text, mut input) = (String::new(), None::<String>);
    let mut characters = command.chars().peekable();
    while let Some(c) = characters.next() {
        let c = match c {
            '\\' if characters.peek() == Some(&'%') => {
                characters.next();
                '%'
            }
            '%' if input.is_none() => {
                input = Some(String::new());
                continue;
            }
            '%' => '\n',
            other => other,
        };
        input.as_mut().unwrap_or(&mut text).push(c);
    }
    (text.trim_end().to_owned(), input)
}

#[cfg(test)]
mod tests {
    use super::{Entry, Line, parts, read};

    #[test]
    fn lines_are_read_as_cron_reads_them() {
        let entry =
            |schedule: &str, user, command| Line::Entry(Entry { schedule: schedule.into(), user, command });
        for (line, system, expected) in [
            ("  ", false, Line::Blank),
            ("# nightly ", false, Line::Comment("nightly")),
            ("MAILTO=ops@example.com", false, Line::Setting("MAILTO", "ops@example.com")),
            ("MAILTO = \"\"", false, Line::Setting("MAILTO", "")),
            ("\"PATH\" = '/bin:/usr/bin'", false, Line::Setting("PATH", "/bin:/usr/bin")),
            ("0 9\t* *   1-5 /bin/a  -b=c", false, entry("0 9 * * 1-5", None, "/bin/a  -b=c")),
            ("*/5 * * * * A=b /bin/a", false, entry("*/5 * * * *", None, "A=b /bin/a")),
            ("@daily run x", true, entry("@daily", Some("run"), "x")),
            ("17 * * * * root cd / && x", true, entry("17 * * * *", Some("root"), "cd / && x")),
        ] {
            assert_eq!(read(line, system), expected, "{line}");
        }
        for (line, system) in
            [("0 9 * *", false), ("0 9 * * *", false), ("@daily", false), ("@daily x", true), ("x", true)]
        {
            assert!(matches!(read(line, system), Line::Wrong(_)), "{line}");
        }
    }

    #[test]
    fn a_percent_sign_begins_the_input() {
        assert_eq!(
            parts("mail -s hi root%Hello%World"),
            ("mail -s hi root".into(), Some("Hello\nWorld".into()))
        );
        assert_eq!(parts(r"date +\%F > /tmp/x"), ("date +%F > /tmp/x".into(), None));
        assert_eq!(parts(r"cat%50\% off"), ("cat".into(), Some("50% off".into())));
        assert_eq!(parts("cat%"), ("cat".into(), Some(String::new())));
        assert_eq!(parts(r"printf 'a\n'"), (r"printf 'a\n'".into(), None));
    }
}
