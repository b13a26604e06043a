//! The story of `examples/invoices`, as a user would run it: what is promised for invoices holds with three schedulers, and
//! when a ticker or a worker freezes and thaws; and where exactly-once ends without the guard, it shows.

use serde_json::Value;
use stack::process::{ManagedChild, Spec};
use stack::testkit::TempFolder;
use std::path::PathBuf;
use std::time::Duration;

/// On a quiet machine it takes half a minute.
const PLAY_LIMIT: Duration = Duration::from_secs(300);

const CUSTOMERS: u64 = 4;

#[tokio::test]
async fn one_invoice_for_each_customer_whoever_freezes_and_the_late_write_is_refused() {
    let folder = TempFolder::create("play").expect("a temporary folder");
    let output = folder.path().join("numbers.json");
    let customers = CUSTOMERS.to_string();
    let spec = Spec::new("the play", program(), &output).args(["--json", "--customers", &customers]);
    let mut play = ManagedChild::spawn(&spec)
        .unwrap_or_else(|error| panic!("{error}: build it with cargo build --workspace --bins"));
    let status = play.exited_within(PLAY_LIMIT).await.expect("its state");
    let said = std::fs::read_to_string(&output).expect("what it said");
    let status = status.unwrap_or_else(|| panic!("it did not end within {PLAY_LIMIT:?}: {said}"));
    // Its log holds what it told on the way, too; the numbers are the list at the end.
    let numbers =
        said.find("[\n").map(|start| &said[start..]).unwrap_or_else(|| panic!("no numbers: {said}"));
    let rows: Vec<Value> = serde_json::from_str(numbers).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert!(status.success(), "a number is not as promised: {rows:#?}");

    // Not as the play judges itself: the numbers that the story promises, once more.
    let each = |row: &Value| (row["least"].as_u64(), row["most"].as_u64());
    let [crontabs, calm, zombie_ticker, unguarded, guarded] = &rows[..] else {
        panic!("five acts: {rows:#?}")
    };
    assert_eq!(each(crontabs), (Some(3), Some(3)));
    for row in [calm, zombie_ticker, guarded] {
        assert_eq!(each(row), (Some(1), Some(1)), "{row}");
        let occurrences = row["occurrences"].as_u64().expect("a number");
        assert_eq!(row["invoices"], occurrences * CUSTOMERS, "{row}");
    }
    assert!(zombie_ticker["occurrences"].as_u64() >= Some(6), "{zombie_ticker}");
    assert!(zombie_ticker["refused"].as_u64() >= Some(1), "the former leader's write met the fence");
    assert_eq!(
        each(unguarded),
        (Some(1), Some(2)),
        "without the guard the thawed worker's late writes count"
    );
    assert_eq!((&unguarded["refused"], &guarded["refused"]), (&0.into(), &1.into()));
}

/// Beside the services, one folder above the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("this test's program");
    test.ancestors().nth(2).expect("the build's folder").join("invoices-example")
}
