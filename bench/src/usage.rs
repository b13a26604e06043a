//! Processor time and memory of processes, from /proc.

use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::time::Duration;

/// Linux counts processor time in hundredths, whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process and those that it started, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Processor time so far, that of ended children too.
    pub cpu: Duration,
    /// Resident memory of the largest of them, in MB (10^6 bytes).
    pub rss_mb: f64,
}

/// By name, for processes that are called so.
///
/// # Errors
/// A process that is not there any more, or a machine that shows none.
pub fn of(processes: &BTreeMap<String, u32>) -> anyhow::Result<BTreeMap<String, Usage>> {
    let pids = std::fs::read_dir("/proc").context("/proc")?.flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stats: Vec<Stat> =
        pids.filter_map(|pid| parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect();
    let usage = |(name, pid): (&String, &u32)| {
        ensure!(stats.iter().any(|stat| stat.pid == *pid), "{name} (process {pid}) has ended");
        Ok((name.clone(), summed(&stats, *pid)))
    };
    processes.iter().map(usage).collect()
}

fn summed(stats: &[Stat], pid: u32) -> Usage {
    let mut usage = Usage::default();
    for stat in stats.iter().filter(|stat| stat.pid == pid || stat.parent == pid) {
        let ended = if stat.pid == pid { stat.ended_ticks } else { 0.0 };
        usage.cpu += Duration::from_secs_f64((stat.ticks + ended) / TICKS_PER_SECOND);
        usage.rss_mb = usage.rss_mb.max(rss_mb(stat.pid));
    }
    usage
}

/// Seconds of processor time between two looks, by name.
pub fn cpu_between(before: &BTreeMap<String, Usage>, after: &BTreeMap<String, Usage>) -> serde_json::Value {
    let spent = |name: &String| {
        let before = before.get(name).map(|usage| usage.cpu).unwrap_or_default();
        after.get(name).map_or(0.0, |after| after.cpu.saturating_sub(before).as_secs_f64())
    };
    after
        .keys()
        .map(|name| (name.clone(), crate::figures::rounded(spent(name)).into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

struct Stat {
    pid: u32,
    parent: u32,
    ticks: f64,
    ended_ticks: f64,
}

fn parse(stat: &str) -> Option<Stat> {
    // The name, in parentheses, may hold anything.
    let (head, rest) = (stat.split_once(' ')?.0, stat.rsplit_once(')')?.1);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some(Stat {
        pid: head.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        ended_ticks: number(13)? + number(14)?,
    })
}

fn rss_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1_024.0 / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_process_is_called() {
        let line = "42 (a ) b) S 7 42 42 0 -1 4194304 1 2 3 4 11 22 33 44 20 0 9 0 100 1000 50";
        let stat = parse(line).expect("a stat line");
        assert_eq!((stat.pid, stat.parent, stat.ticks, stat.ended_ticks), (42, 7, 33.0, 77.0));
    }

    #[test]
    fn our_own_process_uses_something() {
        let own = BTreeMap::from([("own".to_owned(), std::process::id())]);
        assert!(of(&own).expect("it runs")["own"].rss_mb > 0.5);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error_and_not_idle() {
        let gone = BTreeMap::from([("gone".to_owned(), u32::MAX)]);
        assert!(of(&gone).is_err());
    }
}
