//! What is wanted of the figures, on a machine of two cores that everything shares: lines for `cargo xtask bench`.

use serde_json::Value;

/// Prints a line for each figure that is wanted: `FIGURE`, what, how much, unit, target, between tabs.
pub fn print(figures: &Value) {
    for (what, value, unit, target) in wanted(figures) {
        println!("FIGURE\t{what}\t{value}\t{unit}\t{target}");
    }
}

type Line = (String, f64, &'static str, &'static str);

fn wanted(figures: &Value) -> Vec<Line> {
    let at = |pointer: &str| figures.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let line = |what: &str, pointer: &str, unit, target| (what.to_owned(), at(pointer), unit, target);
    match figures["benchmark"].as_str() {
        Some("herd") => vec![
            line("herd: lateness, p50", "/lateness_ms/p50", "ms", "inf"),
            line("herd: lateness, p95", "/lateness_ms/p95", "ms", "inf"),
            line("herd: lateness, p99", "/lateness_ms/p99", "ms", "1000"),
            line("herd: lateness, the last", "/lateness_ms/max", "ms", "2000"),
            line("herd: all ends in the ledger", "/recorded_seconds", "s", "inf"),
        ],
        Some("steady") => vec![
            line("steady: lateness, p50", "/lateness_ms/p50", "ms", "inf"),
            line("steady: lateness, p99", "/lateness_ms/p99", "ms", "50"),
            line("steady: lateness, the last", "/lateness_ms/max", "ms", "inf"),
        ],
        Some("life") => vec![
            line("life: whole lives", "/per_s", "runs/s", ">=8000"),
            line("life: plain SQL", "/sql_limit_per_s", "runs/s", "inf"),
            line("life: of plain SQL", "/ratio", "", ">=0.333"),
        ],
        Some("registry") => vec![
            line("registry: a set of new jobs applied", "/apply_s/created", "s", "5"),
            line("registry: the same set again, nothing to do", "/apply_s/unchanged", "s", "5"),
            line("registry: the set with every job changed", "/apply_s/changed", "s", "5"),
            line("registry: get by gRPC, p50", "/get_grpc_ms/p50", "ms", "inf"),
            line("registry: get by gRPC, p99", "/get_grpc_ms/p99", "ms", "20"),
            line("registry: get by REST, p50", "/get_rest_ms/p50", "ms", "inf"),
            line("registry: get by REST, p99", "/get_rest_ms/p99", "ms", "20"),
        ],
        Some("idle") => figures["processes"].as_object().into_iter().flatten().flat_map(idle).collect(),
        _ => Vec::new(),
    }
}

/// PostgreSQL and etcd are not ours to keep small.
fn idle((name, figures): (&String, &Value)) -> [Line; 2] {
    let ours = !matches!(name.as_str(), "postgres" | "etcd");
    let (cpu, memory) = if ours { ("1", "60") } else { ("inf", "inf") };
    let at = |field: &str| figures[field].as_f64().unwrap_or(f64::NAN);
    [
        (format!("idle: {name}, of a core"), at("core_percent"), "%", cpu),
        (format!("idle: {name}, memory"), at("rss_mb"), "MB", memory),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figure_that_is_missing_is_not_met() {
        let lines = wanted(&json!({ "benchmark": "life", "per_s": 9_000.0 }));
        assert_eq!(lines[0].1, 9_000.0);
        assert!(lines[2].1.is_nan());
    }

    #[test]
    fn only_our_own_processes_have_targets_at_rest() {
        let at_rest = json!({ "core_percent": 0.5, "rss_mb": 30.0 });
        let lines =
            wanted(&json!({ "benchmark": "idle", "processes": { "etcd": at_rest, "ticker-1": at_rest } }));
        assert_eq!(lines.iter().map(|line| line.3).collect::<Vec<_>>(), ["inf", "inf", "1", "60"]);
    }
}
