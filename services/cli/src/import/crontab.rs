//! Crontabs: a user's (`crontab -l`) and a system's (/etc/crontab, /etc/cron.d).

use super::document::{Common, Document, Exec};
use super::line::{self, Entry, Line};
use super::naming::{self, Names};
use super::{Import, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a crontab beside its text.
#[derive(Debug, Clone, Default)]
pub struct Crontab {
    /// A user stands before each command.
    pub system: bool,
    pub common: Common,
}

/// The shell that cron starts when a crontab names none, and so does the agent.
const SHELL: &str = "/bin/sh";

/// Each entry of a crontab as a job.
pub fn crontab(text: &str, about: &Crontab) -> Import {
    let mut reader =
        Reader { about, import: Import::default(), names: Names::default(), seen: Seen::default() };
    let mut settings = Settings::default();
    let mut comments = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let place = format!("line {}", index + 1);
        match line::read(text, about.system) {
            Line::Blank => comments.clear(),
            Line::Comment(comment) => comments.push(comment.to_owned()),
            Line::Setting(name, value) => reader.setting(&place, &mut settings, name, value),
            Line::Wrong(why) => reader.import.remark(&place, Verdict::Refused, why),
            Line::Entry(entry) => {
                let comments = std::mem::take(&mut comments);
                reader.entry(&place, &settings, &entry, comments);
            }
        }
    }
    reader.finish()
}

/// The settings above an entry.
#[derive(Debug, Default)]
struct Settings {
    timezone: Option<String>,
    shell: Option<String>,
    home: Option<String>,
    jitter: Option<String>,
    env: BTreeMap<String, String>,
}

/// What the remarks about the whole crontab depend on.
#[derive(Debug, Default)]
struct Seen {
    users: BTreeSet<String>,
    without_timezone: bool,
    mail: bool,
}

struct Reader<'a> {
    about: &'a Crontab,
    import: Import,
    names: Names,
    seen: Seen,
}

impl Reader<'_> {
    fn setting(&mut self, place: &str, settings: &mut Settings, name: &str, value: &str) {
        let some = (!value.is_empty()).then(|| value.to_owned());
        match name {
            "CRON_TZ" => settings.timezone = some,
            "SHELL" => settings.shell = some.filter(|shell| shell != SHELL),
            "HOME" => settings.home = some,
            "RANDOM_DELAY" => match value.parse::<u32>() {
                Ok(minutes) => settings.jitter = (minutes > 0).then(|| format!("{minutes}m")),
                Err(_) => {
                    self.import.remark(
                        place,
                        Verdict::Refused,
                        format!("RANDOM_DELAY {value:?}: use minutes, such as 10"),
                    );
                }
            },
            "MAILTO" => {
                if let Some(address) = some {
                    self.seen.mail = true;
                    let text = format!(
                        "MAILTO={address}: output is not mailed, it is kept with each run (`escapement logs`). To tell {address} of \
                         a missing success, make a channel of kind email and import with --channel NAME"
                    );
                    self.import.remark(place, Verdict::Differs, text);
                }
            }
            "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {
                self.import.remark(place, Verdict::Differs, format!("{name} is left out: nothing is mailed"));
            }
            "TZ" => {
                self.import.remark(
                    place,
                    Verdict::Differs,
                    format!("TZ={value} is kept for the commands only, as in most crons; CRON_TZ or --timezone decides when they are due"),
                );
                settings.env.insert(name.to_owned(), value.to_owned());
            }
            "LOGNAME" | "USER" => {
                self.import.remark(
                    place,
                    Verdict::Differs,
                    format!("{name} is left out: it is the agent's user"),
                );
            }
            _ => {
                settings.env.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    fn entry(&mut self, place: &str, settings: &Settings, entry: &Entry<'_>, comments: Vec<String>) {
        if entry.schedule.eq_ignore_ascii_case("@reboot") {
            let text = "@reboot names no time, but the start of a machine, of which a scheduler of many machines knows nothing: \
                        keep it there, or make it a unit of that machine's init";
            return self.import.remark(place, Verdict::Refused, text);
        }
        // A leading '-' of the minute asks some crons not to log; '~' draws a minute anew each day.
        let schedule = entry.schedule.strip_prefix('-').unwrap_or(&entry.schedule);
        let mut document = Document::new(&self.about.common);
        document.comments = comments;
        schedule.clone_into(&mut document.schedule);
        document.timezone = settings.timezone.clone().or_else(|| self.about.common.timezone.clone());
        document.jitter.clone_from(&settings.jitter);
        // Cron starts a run beside one that still goes on.
        document.overlap = Some("ALLOW");
        if let Some(wrong) = document.wrong() {
            return self.import.remark(place, Verdict::Refused, wrong);
        }
        self.seen.without_timezone |= document.timezone.is_none();
        self.seen.users.extend(entry.user.map(str::to_owned));
        let (command, input) = line::parts(entry.command);
        document.name = self.names.give(&self.about.common.prefix, &naming::of_command(&command));
        document.run.exec = exec(&command, input.as_deref(), settings);
        self.import.remark(place, Verdict::Mapped, format!("job {}", document.name));
        self.import.documents.push(document);
    }

    fn finish(mut self) -> Import {
        if self.import.documents.is_empty() {
            return self.import;
        }
        let mut say = |text: String| self.import.remark("", Verdict::Differs, text);
        if self.seen.without_timezone {
            say("times are read as UTC; cron reads them in its machine's zone: import with --timezone, such as Europe/Berlin"
                .to_owned());
        }
        if !self.seen.users.is_empty() {
            let users = self.seen.users.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            say(format!(
                "commands run as the agent's user, not as {users}: run an agent for each user, with a queue of its own (--queue)"
            ));
        }
        say("an attempt is ended after an hour, cron lets it run: set maxRuntime where that is too short"
            .to_owned());
        say("a run that an outage prevented is made up for once, cron drops it: `misfire: {policy: SKIP}` does so too".to_owned());
        say("runs may overlap, as with cron: `overlap: FORBID` in place of locks around commands".to_owned());
        self.import
    }
}

fn exec(command: &str, input: Option<&str>, settings: &Settings) -> Exec {
    let env = settings.env.clone();
    let working_directory = settings.home.clone();
    let shell = settings.shell.as_deref().unwrap_or(SHELL);
    let line = match input {
        Some(input) => format!("printf '%s\\n' {} | {shell} -c {}", quoted(input), quoted(command)),
        None => command.to_owned(),
    };
    match (&settings.shell, input) {
        (Some(shell), None) => Exec {
            argv: vec![shell.clone(), "-c".to_owned(), line],
            env,
            working_directory,
            ..Exec::default()
        },
        _ => Exec { shell: Some(line), env, working_directory, ..Exec::default() },
    }
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
