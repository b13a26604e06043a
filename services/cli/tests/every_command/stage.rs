//! What the commands are shown with: files, a registry, and rows that other services would have written.

use chrono::{NaiveDate, TimeDelta, Utc};
use stack::dev::{Options, Stack};
use stack::postgres::Postgres;
use stack::testkit::TempFolder;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The files that commands are given, by their names.
const FILES: [(&str, &str); 9] = [
    ("jobs.yaml", JOBS),
    ("new.yaml", NEW),
    ("created-{f}.yaml", CREATED),
    ("wrong.yaml", WRONG),
    ("unreadable.yaml", UNREADABLE),
    ("misspelt.yaml", MISSPELT),
    ("nobody.yaml", NOBODY),
    ("crontab", "CRON_TZ=Europe/Berlin\n0 9 * * 1-5 /opt/close-books.sh --all\n@reboot warm-up\n"),
    ("cronjobs.yaml", CRON_JOB),
];

/// What is there from the beginning. Nothing of it comes before 2090.
const JOBS: &str = "\
kind: Channel\nname: ops\nwebhook: {url: 'https://ops.example/hook'}\nsystem: false\n---
kind: Calendar\nname: holidays\ndates: [2090-12-25, 2091-01-01]\n---
kind: Job\nname: backup\nschedule: '30 2 * * *'\nstartsAt: 2090-01-01T00:00:00Z\nlabels: {team: ops}\nrun: {exec: {argv: [backup]}}\n---
kind: Job\nname: invoices\nschedule: '0 9 * * 1-5'\ntimezone: Europe/Berlin\nstartsAt: 2090-01-01T00:00:00Z
labels: {team: billing}\nmaxRuntime: 1h30m\nalert: {channels: [ops]}\ncalendars: {exclude: [holidays]}\nrun: {handler: {name: invoices}}\n";

/// A change of the former.
const NEW: &str = "\
kind: Job\nname: backup\nschedule: '30 3 * * *'\nstartsAt: 2090-01-01T00:00:00Z\nlabels: {team: ops}\nrun: {exec: {argv: [backup]}}\n---
kind: Job\nname: report\nschedule: '0 6 1 * *'\nstartsAt: 2090-01-01T00:00:00Z\nrun: {handler: {name: report}}\n";

const CREATED: &str = "kind: Job\nname: created-{f}\nschedule: '@daily'\nstartsAt: 2090-01-01T00:00:00Z\nrun: {handler: {name: h}}\n";

const WRONG: &str = "\
kind: Job\nname: wrong\nschedule: '61 9 * * *'\noverlap: QUEUE\nrun: {handler: {name: h}}\n---
kind: Job\nname: Wrong\nschedule: '@daily'\ntimezone: Europe/Berln\nrun: {handler: {name: h}}\n";

/// Values that can't be read, beside ones that can and are wrong.
const UNREADABLE: &str = "\
kind: Job\nname: wrong\nschedule: '61 9 * * *'\nmaxRuntime: long\npriority: first\nrun: {handler: {name: h}}\n---
kind: CheckIn\nname: quiet\nperiod: 1x\ngrace: 0s\n---
kind: Job\nname: right\nname: twice\nschedule: '@daily'\njitter: 1h30\nrun: {handler: {name: h}}\n";

/// A field that is none, and a channel that is wrong and named.
const MISSPELT: &str = "\
kind: Channel\nname: night\nwebhook: {url: ops.example}\n---
kind: Job\nname: misspelt\nshedule: '@daily'\nalert: {channels: [night]}\nrun: {handler: {name: h}}\n";

/// A job that is wrong by what only the database knows, and one that is in itself.
const NOBODY: &str = "\
kind: Job\nname: lonely\nschedule: '@daily'\nalert: {channels: [nobody]}\nrun: {handler: {name: h}}\n---
kind: Job\nname: wrong\nschedule: '61 9 * * *'\nrun: {handler: {name: h}}\n";

const CRON_JOB: &str = "\
apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: month-end, namespace: billing}\nspec:\n  schedule: '0 6 1 * *'
  jobTemplate:\n    spec:\n      template:\n        spec:\n          containers:\n          - image: report:3\n            command: [report, --month]\n";

/// Runs, an alert with what was told of it, who works: as the ticker, a dispatcher, an agent and the watchdog write them.
/// What counts as alive is so for longer than any test takes.
const ROWS: &str = include_str!("rows.sql");

/// As `rows.sql` numbers them, by the names of their jobs.
fn alert_of(job: &str) -> String {
    let number =
        ["alert-json", "alert-name", "alert-table", "alert-yaml"].iter().position(|name| *name == job);
    format!("00000000-0000-4000-8000-00000000e00{}", number.map_or(0, |number| number + 1))
}

/// Does statements in the cell's schema; rows as lines.
pub async fn sql(postgres: &Postgres, statements: &str) -> String {
    let statements = format!("SET search_path = main; {statements}");
    postgres.psql("postgres", &statements).await.expect("sound statements")
}

/// A registry and its database, and what is typed for words in braces.
pub struct Stage {
    stack: Stack,
    token: String,
    database: String,
    words: Vec<(String, String)>,
    folder: TempFolder,
}

impl Stage {
    pub async fn set() -> Self {
        let folder = Self::folder();
        let mut stage = Self::of(Options::for_tests(folder.path()), folder).await;
        let today = Utc::now().date_naive();
        let [yesterday, ran, before] = [1, 2, 3].map(|days| today - TimeDelta::days(days));
        let ran = format!("{ran}T09:00:00Z");
        let plain = stage.stack.endpoints().registry.rest.replacen("http://", "https://", 1);
        stage.words = vec![
            ("{tls}".to_owned(), plain),
            ("{yesterday}".to_owned(), yesterday.to_string()),
            ("{ran}".to_owned(), ran.clone()),
        ];
        stage.sql(&format!("SELECT esc_make_partitions('{before}', '{}')", today + TimeDelta::days(2))).await;
        stage.write_files();
        stage.prints("apply -f jobs.yaml");
        stage.make_jobs(yesterday);
        stage.make_others();
        stage.sql(&ROWS.replace("{ran}", &ran)).await;
        stage
    }

    /// One on which nothing is yet, with a registry alone of what `options` have.
    pub async fn of(mut options: Options, folder: TempFolder) -> Self {
        service::runtime::install_crypto();
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (0, 0, 0, 0);
        let mut stack = Stack::start(options).await.expect("a registry");
        let database = stack.postgres().url();
        let file = stack.endpoints().admin_token_file;
        let token = std::fs::read_to_string(file).expect("the administrator's token").trim().to_owned();
        Self { stack, token, database, words: Vec::new(), folder }
    }

    /// Where a stage may be set.
    pub fn folder() -> TempFolder {
        TempFolder::create("every-command").expect("a temporary folder")
    }

    pub async fn stop(self) {
        self.stack.stop().await.expect("it stops");
    }

    /// Statements, as other services would send them.
    async fn sql(&mut self, statements: &str) {
        sql(self.postgres(), statements).await;
    }

    /// Its database.
    pub fn postgres(&mut self) -> &Postgres {
        self.stack.postgres()
    }

    /// A file where commands are typed.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.typed().join(name), text).expect("written");
    }

    fn write_files(&self) {
        for (name, text) in FILES {
            for (format, _) in super::FORMATS {
                self.write(&name.replace("{f}", format), &text.replace("{f}", format));
            }
        }
    }

    /// For each format a job, run or alert to which something is done.
    fn make_jobs(&mut self, yesterday: NaiveDate) {
        for (format, _) in super::FORMATS {
            for deed in ["pause", "resume", "trigger", "cancel", "delete", "rerun", "alert"] {
                let name = format!("{deed}-{format}");
                self.create(&name, "@daily", "2090-01-01T00:00:00Z");
            }
            self.prints(&format!("pause resume-{format} --reason audit"));
            let run = self.prints(&format!("trigger cancel-{format} -o name"));
            self.words.push((format!("{{cancel-{format}}}"), run.trim().to_owned()));
            let alert = format!("alert-{format}");
            self.words.push((format!("{{{alert}}}"), alert_of(&alert)));
        }
        // Due four times yesterday, and not again while it is looked at.
        let schedule = yesterday.format("0 0-3 %-d %-m *").to_string();
        self.create("early", &schedule, "2026-01-01T00:00:00Z");
    }

    fn create(&self, name: &str, schedule: &str, starts_at: &str) {
        let file = format!("{name}.yaml");
        let text = format!(
            "kind: Job\nname: {name}\nschedule: '{schedule}'\nstartsAt: {starts_at}\nrun: {{exec: {{argv: ['true']}}}}\n"
        );
        self.write(&file, &text);
        self.prints(&format!("create -f {file}"));
    }

    /// What is deleted, revoked, changed or looked at besides.
    fn make_others(&mut self) {
        self.prints("tenants create acme --max-jobs 0");
        self.prints("tokens create ci --role editor --tenant acme --secret-file acme-token");
        self.prints("tokens create watcher --role viewer --secret-file viewer-token");
        for (format, _) in super::FORMATS {
            self.prints(&format!(
                "tokens create gone-{format} --role viewer --tenant acme --secret-file gone-{format}"
            ));
            self.prints(&format!("channels create webhook gone-{format} --url https://ops.example/hook"));
            self.prints(&format!("checkins create kept-{format} --period 86400"));
        }
        for (word, file) in [("{acme}", "acme-token"), ("{viewer}", "viewer-token")] {
            let token = std::fs::read_to_string(self.typed().join(file)).expect("a token").trim().to_owned();
            self.words.push((word.to_owned(), token));
        }
    }

    /// The words of a line: apart by spaces, except within single quotes.
    pub fn words(&self, line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (index, part) in line.split('\'').enumerate() {
            if index % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        let filled =
            |word: String| self.words.iter().fold(word, |word, (name, value)| word.replace(name, value));
        words.into_iter().map(filled).collect()
    }

    /// What a command did, in an environment that says nothing else than the registry, the database and `environment`.
    pub fn run(&self, words: &[&str], environment: &[&str]) -> Output {
        self.command(words, environment).output().expect("the command line starts")
    }

    /// A command that is still to be run, alike.
    pub fn command(&self, words: &[&str], environment: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_escapement"));
        command.args(words).env_clear().current_dir(self.typed());
        command.env("HOME", self.typed()).env("ESCAPEMENT_DATABASE_URL", &self.database);
        command.env("ESCAPEMENT_SERVER", &self.stack.endpoints().registry.rest);
        command.env("ESCAPEMENT_TOKEN", &self.token);
        command.envs(environment.iter().filter_map(|pair| pair.split_once('=')));
        command
    }

    /// What a command printed that had to succeed.
    pub fn prints(&self, line: &str) -> String {
        let words = self.words(line);
        let output = self.run(&words.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Where commands are typed.
    fn typed(&self) -> PathBuf {
        let folder = self.folder.path().join("typed");
        std::fs::create_dir_all(&folder).expect("a folder");
        folder.canonicalize().expect("it is there")
    }

    /// Texts of this run, and what stands for them.
    pub fn fixed(&self) -> Vec<(String, &'static str)> {
        let folder = self.typed().to_str().expect("a text").to_owned();
        vec![(folder, "/home/ann"), (self.token.clone(), "esc_SECRET")]
    }
}
