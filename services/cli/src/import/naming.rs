//! Names of jobs from what they were called or what they run.

use model::validate::limits::NAME_BYTES;
use std::collections::BTreeSet;

/// Programs that run other programs, and words of the shell: what they run gives the name.
const WRAPPERS: [&str; 19] = [
    "bash", "cd", "chronic", "command", "dash", "env", "exec", "flock", "ionice", "nice", "nohup", "python",
    "python3", "sh", "sudo", "test", "time", "timeout", "zsh",
];

/// Gives names that no other job of the import has.
#[derive(Debug, Default)]
pub struct Names {
    given: BTreeSet<String>,
}

impl Names {
    /// A name that begins with `prefix` and is like `wanted`; numbered from the second one on.
    pub fn give(&mut self, prefix: &str, wanted: &str) -> String {
        let base = clean(&format!("{prefix}{wanted}"));
        let base = if base.is_empty() { "job".to_owned() } else { base };
        let mut name = base.clone();
        let mut number: u32 = 1;
        while !self.given.insert(name.clone()) {
            number += 1;
            let suffix = format!("-{number}");
            let room = NAME_BYTES - suffix.len();
            name = format!("{}{suffix}", base.get(..room).unwrap_or(&base));
        }
        name
    }
}

/// What a command line is about: the first word that is neither an assignment, an option, a number nor a wrapper.
pub fn of_command(command: &str) -> String {
    let word = command.split([' ', '\t', ';', '&', '|', '(', ')', '"', '\'']).find(|word| {
        let program = base(word);
        let number = program.chars().all(|c| c.is_ascii_digit() || c == '.');
        !(word.starts_with('-') || word.contains('=') || number || skipped(word, program))
    });
    word.map(base).map(stem).unwrap_or_default().to_owned()
}

fn skipped(word: &str, program: &str) -> bool {
    // A folder that is changed to, or a lock's file, says less than the program does.
    let place = ["/var/lock/", "/run/", "/tmp/"].iter().any(|prefix| word.starts_with(prefix));
    program.is_empty() || program == "[" || place || WRAPPERS.contains(&program)
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Without the ending of a script.
fn stem(program: &str) -> &str {
    let ended = [".sh", ".py", ".pl", ".rb", ".php"].iter().find_map(|ending| program.strip_suffix(ending));
    ended.filter(|stem| !stem.is_empty()).unwrap_or(program)
}

/// As names are written: a-z, 0-9, '.', '_' and '-', with a letter or digit at both ends.
fn clean(text: &str) -> String {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    let text: String =
        text.chars().map(|c| c.to_ascii_lowercase()).map(|c| if fits(c) { c } else { '-' }).collect();
    let ends = |c: char| !c.is_ascii_alphanumeric();
    let text = text.trim_matches(ends);
    text.get(..NAME_BYTES).unwrap_or(text).trim_end_matches(ends).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Names, of_command};

    #[test]
    fn commands_are_named_by_what_they_run() {
        for (command, name) in [
            ("/usr/local/bin/report.sh --daily", "report"),
            ("LANG=C /opt/billing/invoices", "invoices"),
            ("nice -n 10 ionice -c3 /opt/backup full", "backup"),
            ("flock -n /var/lock/sync /usr/bin/rsync -a a b", "rsync"),
            ("[ -x /usr/sbin/anacron ] || run-parts /etc/cron.daily", "anacron"),
            ("python3 -m billing.close", "billing.close"),
            ("bash -c 'cleanup --all'", "cleanup"),
            ("", ""),
        ] {
            assert_eq!(of_command(command), name, "{command}");
        }
    }

    #[test]
    fn names_are_clean_and_each_is_given_once() {
        let mut names = Names::default();
        assert_eq!(names.give("", "Close Books!"), "close-books");
        assert_eq!(names.give("", "close-books"), "close-books-2");
        assert_eq!(names.give("", "é"), "job");
        assert_eq!(names.give("old-", "x"), "old-x");
        let long = "a".repeat(80);
        assert_eq!(names.give("", &long), "a".repeat(63));
        assert_eq!(names.give("", &long), format!("{}-2", "a".repeat(61)));
    }
}
