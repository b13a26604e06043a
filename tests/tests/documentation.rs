//! Pages that name tests as evidence: each test is there, in the file that is named with it.
//!
//! Invariant: a page can't go on naming a test that was renamed, moved or deleted. Whether the test shows what the page
//! says of it is for whoever reads both.

use std::path::{Path, PathBuf};

const FAULTS: &str = include_str!("../../docs/faults.md");
const ARCHITECTURE: &str = include_str!("../../ARCHITECTURE.md");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in a folder of the tree")
}

/// What a cell or a paragraph names: tests with the place behind them in brackets, tests alone, and places alone.
#[derive(Debug, Default, PartialEq)]
struct Evidence<'a> {
    placed: Vec<(&'a str, &'a str)>,
    tests: Vec<&'a str>,
    places: Vec<&'a str>,
}

impl<'a> Evidence<'a> {
    fn read(text: &'a str) -> Self {
        let mut evidence = Self::default();
        let mut before = "";
        for (index, part) in text.split('`').enumerate() {
            if index % 2 == 0 {
                before = part;
            } else if part.contains('/') {
                evidence.places.push(part);
                if before.ends_with('(') {
                    let tests = evidence.tests.drain(..);
                    evidence.placed.extend(tests.map(|test| (test, part)));
                }
            } else if is_name(part) {
                evidence.tests.push(part);
            }
        }
        evidence
    }

    /// What of it is not there.
    fn missing(&self) -> Vec<String> {
        let places = self.places.iter().filter(|place| !paths(place).iter().all(|path| path.exists()));
        let placed = self.placed.iter().filter(|(test, place)| !is_in(test, &paths(place)));
        let everywhere = ["libs", "services", "tests"].map(|folder| root().join(folder));
        let tests = self.tests.iter().filter(|test| !is_in(test, &everywhere));
        let places = places.map(|place| format!("{place} is not there"));
        let placed = placed.map(|(test, place)| format!("{place} has no test {test}"));
        places.chain(placed).chain(tests.map(|test| format!("there is no test {test}"))).collect()
    }
}

/// Whether it reads like the name of a test; other words in code are none.
fn is_name(text: &str) -> bool {
    text.contains('_') && text.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// The paths of a place, which may name several: `a_{b,c}.rs`.
fn paths(place: &str) -> Vec<PathBuf> {
    let several = place.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    match several {
        None => vec![root().join(place)],
        Some((head, (names, tail))) => {
            names.split(',').map(|name| root().join(format!("{head}{name}{tail}"))).collect()
        }
    }
}

fn is_in(test: &str, places: &[PathBuf]) -> bool {
    places.iter().any(|place| match std::fs::read_dir(place) {
        Ok(entries) => {
            let entries: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
            is_in(test, &entries)
        }
        Err(_) => place.extension().is_some_and(|kind| kind == "rs") && has(place, test),
    })
}

/// Whether the file has a function of this name that is run as a test.
fn has(file: &Path, test: &str) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let opening = format!("fn {test}(");
    let openings = lines.iter().enumerate().filter(|(_, line)| line.contains(&opening));
    let above = |at: usize| lines[..at].iter().rev().take_while(|line| line.starts_with(['#', '/']));
    openings
        .map(|(at, _)| at)
        .any(|at| above(at).any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test")))
}

/// The last cells of the rows in tables whose last heading is this.
fn last_cells<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let mut inside = false;
    let mut cells = Vec::new();
    for line in page.lines() {
        let cell = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")?.rsplit(" | ").next());
        match cell {
            None => inside = false,
            Some(cell) if cell == heading => inside = true,
            Some(cell) if inside && !cell.starts_with("---") => cells.push(cell),
            Some(_) => {}
        }
    }
    cells
}

#[test]
fn every_fault_names_a_test_that_is_there() {
    let rows = last_cells(FAULTS, "shown by");
    assert!(rows.len() > 60, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let evidence = Evidence::read(row);
        if evidence.placed.is_empty() || !evidence.tests.is_empty() {
            wrong.push(format!("no test, or one without its file: {row}"));
        }
        wrong.extend(evidence.missing());
    }
    for paragraph in FAULTS.split("\n\n").filter(|text| !text.starts_with('|')) {
        wrong.extend(Evidence::read(paragraph).missing());
    }
    assert!(wrong.is_empty(), "docs/faults.md:\n{}", wrong.join("\n"));
}

#[test]
fn every_invariant_and_rule_names_what_is_there() {
    let rows = last_cells(ARCHITECTURE, "shown by");
    assert!(rows.len() > 20, "{} rows", rows.len());
    let wrong: Vec<String> = rows.into_iter().flat_map(|row| Evidence::read(row).missing()).collect();
    assert!(wrong.is_empty(), "ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

#[test]
fn what_is_not_there_is_named() {
    let here = "tests/tests/documentation.rs";
    let row = format!(
        "`what_is_not_there_is_named`, `gone_since_long_ago` (`{here}`); `last_cells` (`{here}`) is none; `tests/{{src,nowhere}}/`"
    );
    let missing = Evidence::read(&row).missing();
    let expected = [
        "tests/{src,nowhere}/ is not there".to_owned(),
        format!("{here} has no test gone_since_long_ago"),
        format!("{here} has no test last_cells"),
    ];
    assert_eq!(missing, expected);
    assert_eq!(
        Evidence::read("`neither_here_nor_there`").missing(),
        ["there is no test neither_here_nor_there"]
    );
    assert_eq!(
        last_cells("| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| a | c |\n| --- | --- |\n| 3 | 4 |", "b"),
        ["2"]
    );
}
