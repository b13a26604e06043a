//! What criterion leaves in its folder: for each benchmark `new/benchmark.json` with its name and
//! `new/estimates.json` with its figures. Reads the two values needed from each, without a JSON parser, since `xtask`
//! builds with nothing but the standard library.

use std::fs;
use std::path::Path;

/// The median time of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Whose: ours, or another crate's.
    pub who: String,
    pub verb: String,
    /// `common` or `sparse`.
    pub kind: String,
    pub zone: String,
    pub expression: String,
    pub nanoseconds: f64,
}

/// Every benchmark below `folder`.
pub fn read(folder: &Path) -> Result<Vec<Call>, String> {
    let mut calls = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
            if path.ends_with("new") {
                calls.push(benchmark(&path)?);
            } else {
                folders.push(path);
            }
        }
    }
    if calls.is_empty() { Err(format!("no benchmark in {}", folder.display())) } else { Ok(calls) }
}

fn benchmark(folder: &Path) -> Result<Call, String> {
    let text = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (name, estimates) = (text("benchmark.json")?, text("estimates.json")?);
    call(&name, &estimates).ok_or_else(|| format!("{} holds no benchmark of ours", folder.display()))
}

/// The call that the two texts tell of; `full_id` is like `escapement/next/common|UTC|* * * * *`.
fn call(name: &str, estimates: &str) -> Option<Call> {
    let full_id = name.split_once("\"full_id\":\"")?.1.split_once('"')?.0;
    let (path, zone, expression) = match full_id.splitn(3, '|').collect::<Vec<_>>()[..] {
        [path, zone, expression] => (path, zone, expression),
        _ => return None,
    };
    let mut path = path.splitn(3, '/').map(str::to_owned);
    let median = estimates.split_once("\"median\":")?.1.split_once("\"point_estimate\":")?.1;
    Some(Call {
        who: path.next()?,
        verb: path.next()?,
        kind: path.next()?,
        zone: zone.to_owned(),
        expression: expression.to_owned(),
        nanoseconds: median.split([',', '}']).next()?.trim().parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Call, call};

    #[test]
    fn name_and_median_are_read() {
        let name =
            r#"{"group_id":"escapement/next","full_id":"escapement/next/sparse|Europe/Berlin|0 0 29 2 *"}"#;
        let estimates = r#"{"mean":{"point_estimate":9.0},"median":{"confidence_interval":{"upper_bound":2.0},"point_estimate":114.5,"standard_error":0.1}}"#;
        let expected = Call {
            who: "escapement".to_owned(),
            verb: "next".to_owned(),
            kind: "sparse".to_owned(),
            zone: "Europe/Berlin".to_owned(),
            expression: "0 0 29 2 *".to_owned(),
            nanoseconds: 114.5,
        };
        assert_eq!(call(name, estimates), Some(expected));
        assert_eq!(call("{}", estimates), None);
        assert_eq!(call(name, "{}"), None);
    }
}
