//! Taking over what cron and Kubernetes ran: what `import` prints is what `apply` stores, and what it refuses it names.

use harness::Cell;

const CRONTAB: &str = "MAILTO=ops@example.com\nCRON_TZ=Europe/Berlin\nSHELL=/bin/bash\n# The books of each day\n0 9 * * 1-5 \
                       /opt/close-books.sh --all\n@hourly sync | tee /tmp/sync\n30 2 * * sun mail -s hi root%Hello%World\n";

const CRON_JOB: &str = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: report, namespace: billing}\nspec:\n  schedule: '0 \
                        6 1 * *'\n  timeZone: Europe/Berlin\n  concurrencyPolicy: Replace\n  startingDeadlineSeconds: 5\n  \
                        jobTemplate:\n    spec:\n      template:\n        spec:\n          containers:\n          - image: \
                        report:3\n            command: [report, --month]\n            env: [{name: LANG, value: C}]\n";

async fn cell_of_a_registry() -> Cell {
    Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (0, 0, 0, 0);
        options
    })
    .await
}

#[tokio::test]
async fn what_is_imported_is_what_is_applied() {
    let cell = cell_of_a_registry().await;
    let written = |name: &str, text: &str| {
        let file = cell.folder().join(name);
        std::fs::write(&file, text).expect("written");
        file.to_str().expect("a text").to_owned()
    };
    let (crontab, manifests) = (written("crontab", CRONTAB), written("cronjobs.yaml", CRON_JOB));

    let printed = cell.prints(&["import", "crontab", &crontab, "--prefix", "web1-", "-l", "team=books"]);
    let file = written("jobs.yaml", &printed);
    let created = "job web1-close-books created\njob web1-sync created\njob web1-mail created\n";
    assert_eq!(cell.prints(&["apply", "-f", &file]), created);
    let books = cell.api.get("/v1/jobs/web1-close-books").await.expect("stored");
    assert_eq!(books["schedule"], "0 9 * * 1-5");
    assert_eq!(books["timezone"], "Europe/Berlin");
    assert_eq!(books["labels"]["team"], "books");
    assert_eq!(books["run"]["exec"]["argv"][2], "/opt/close-books.sh --all");

    let again = ["import", "crontab", &crontab, "--prefix", "web1-", "-l", "team=books", "--apply"];
    let unchanged = created.replace("created", "unchanged") + "nothing changed\n";
    assert_eq!(cell.prints(&again), unchanged, "the same documents, whichever way they go");

    assert_eq!(cell.prints(&["import", "kubernetes", &manifests, "--apply"]), "job report created\n");
    let report = cell.api.get("/v1/jobs/report").await.expect("stored");
    assert_eq!(report["overlap"], "REPLACE");
    assert_eq!(report["misfire"]["grace"], "10s");
    assert_eq!(report["retry"]["maxAttempts"], 7);
    cell.stop().await;
}

#[tokio::test]
async fn what_can_not_be_taken_over_is_named_and_then_nothing_is_stored() {
    let cell = cell_of_a_registry().await;
    let file = cell.folder().join("crontab");
    std::fs::write(&file, "@reboot /opt/start\n0 25 * * * late\n0 4 * * * fine\n").expect("written");
    let path = file.to_str().expect("a text");
    let import = cell.escapement(&["import", "crontab", path, "--apply"]);
    assert!(!import.status.success());
    let said = String::from_utf8_lossy(&import.stderr);
    for line in [
        "line 1: refused: @reboot names no time",
        "line 2: refused: hour 25",
        "line 3: mapped: job fine",
        "differs: times are read as UTC",
        "escapement: 2 of the source could not be taken over: nothing was stored",
    ] {
        assert!(said.contains(line), "{line} in {said}");
    }
    assert!(cell.api.get("/v1/jobs/fine").await.is_err(), "all or none");
    assert!(cell.prints(&["get", "jobs", "-o", "name"]).trim().is_empty());
    cell.stop().await;
}
