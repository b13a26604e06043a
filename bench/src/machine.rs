//! What the figures were measured on.

use serde_json::{Value, json};

/// The machine, as far as Linux tells.
pub fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let line = |text: &str, name: &str| {
        let value = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
        value.map(|(_, value)| value.trim().to_owned())
    };
    json!({
        "cpu": line(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": line(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load_before": read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
    })
}
