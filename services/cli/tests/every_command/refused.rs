//! What a real registry's refusals are followed by that no single line brings about: somebody was faster, and too many requests.

use crate::stage::{self, Stage};
use stack::dev::{Options, Role};
use stack::wait::wait_for;
use std::process::Output;
use std::time::Duration;

/// For anything that takes milliseconds unless the machine is busy.
const SOON: Duration = Duration::from_secs(20);

/// Documents of the file that is too much: at one request a second, minutes of them.
const DOCUMENTS: usize = 300;

/// Changes a tenant's limits, and ends that change when another one waits for it. Given up after a minute.
const FASTER: &str = "
    BEGIN;
    UPDATE tenant_limit SET generation = generation + 1 WHERE tenant_id = (SELECT id FROM tenant WHERE name = 'acme');
    DO $$ BEGIN
        FOR pause IN 1..6000 LOOP
            EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted);
            PERFORM pg_sleep(0.01);
        END LOOP;
    END $$;
    COMMIT";

/// How often somebody pauses, as [`FASTER`] does once it has changed the tenant.
const CHANGED: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";

#[tokio::test]
async fn who_was_overtaken_reads_what_to_do() {
    let folder = Stage::folder();
    let mut stage = Stage::of(Options::for_tests(folder.path()), folder).await;
    stage.prints("tenants create acme --max-jobs 5");
    let mut set = stage.command(&["tenants", "set", "acme", "--max-jobs", "4321"], &[]);
    let postgres = stage.postgres();
    let overtaken = async {
        let changed = async || (stage::sql(postgres, CHANGED).await != "0").then_some(());
        wait_for(SOON, "the faster change", changed).await;
        tokio::task::spawn_blocking(move || set.output()).await.expect("no panic").expect("it starts")
    };
    let (_, output) = tokio::join!(stage::sql(postgres, FASTER), overtaken);
    let shown = stage.prints("tenants get acme");
    stage.stop().await;
    assert_eq!(
        said(&output).lines().collect::<Vec<_>>(),
        [
            "escapement: tenant \"acme\" has generation 3, not 2: read it again and repeat the change",
            "  somebody was faster: get it again with `escapement get`, change that, and repeat the command",
        ]
    );
    assert_eq!(output.status.code(), Some(4));
    assert!(!shown.contains("4321"), "{shown}");
}

#[tokio::test]
async fn who_asks_too_much_reads_when_to_try_again() {
    let folder = Stage::folder();
    let limit = "token_requests_per_second = 1\ntoken_requests_burst = 20";
    let stage = Stage::of(Options::for_tests(folder.path()).setting(Role::Registry, limit), folder).await;
    let job =
        |number| format!("kind: Job\nname: a-{number}\nschedule: '@daily'\nrun: {{handler: {{name: h}}}}\n");
    stage.write("many.yaml", &(0..DOCUMENTS).map(job).collect::<Vec<_>>().join("---\n"));
    let output = stage.run(&["create", "-f", "many.yaml"], &[]);
    stage.stop().await;
    let said = said(&output);
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("escapement: job a-"), "{said}");
    assert!(lines[0].contains(": this token makes more than 1 requests a second: try again in "), "{said}");
    assert_eq!(lines[1..], ["  try again in 1 s"]);
    assert_eq!(output.status.code(), Some(7));
    let created = String::from_utf8_lossy(&output.stdout);
    assert!(created.starts_with("job a-0 created\n"), "what was created before stays: {created}");
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
