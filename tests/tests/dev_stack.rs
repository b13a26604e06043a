//! The local stack as a newcomer meets it: one command, endpoints.json, stop, and the data again.

use serde_json::Value;
use stack::testkit::TempFolder;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Output};

/// The state of a socket that listens.
const LISTENS: &str = "0A";

fn dev(arguments: &[&str]) -> Output {
    let program = stack::dev::Options::for_tests(Path::new(".")).binaries.join("escapement");
    Command::new(program).arg("dev").args(arguments).output().expect("the command line starts")
}

fn endpoints(data: &Path) -> Value {
    let text = std::fs::read(data.join("endpoints.json")).expect("endpoints.json");
    serde_json::from_slice(&text).expect("JSON")
}

fn pids(endpoints: &Value) -> Vec<u64> {
    let lists = ["tickers", "dispatchers", "watchdogs", "agents"];
    let of_lists = lists.iter().flat_map(|list| endpoints[*list].as_array().cloned().unwrap_or_default());
    let pids = of_lists.chain([endpoints["registry"].clone(), endpoints.clone()]);
    pids.map(|process| process["pid"].as_u64().expect("a pid")).collect()
}

fn alive(pid: u64) -> bool {
    // A zombie that nobody has reaped yet has ended too.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Where a process listens, over IPv4 or IPv6, as the kernel knows it.
fn listening(pid: u64) -> Vec<SocketAddr> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    let opened = folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let opened: Vec<String> = opened.map(|target| target.display().to_string()).collect();
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let sockets = tables.iter().flat_map(|table| table.lines().skip(1));
    let of_process = sockets.filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let own = columns[3] == LISTENS && opened.contains(&format!("socket:[{}]", columns[9]));
        own.then(|| socket_address(columns[1]))
    });
    of_process.collect()
}

/// As /proc/net/tcp writes it: 32-bit words of the address in the machine's order, and the port.
fn socket_address(text: &str) -> SocketAddr {
    let (address, port) = text.split_once(':').expect("address:port");
    let words = address.as_bytes().chunks(8).map(|word| std::str::from_utf8(word).expect("hexadecimal"));
    let bytes: Vec<u8> =
        words.flat_map(|word| u32::from_str_radix(word, 16).expect("hexadecimal").to_ne_bytes()).collect();
    let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(bytes) => IpAddr::from(bytes),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes.as_slice()).expect("an IPv6 address")),
    };
    SocketAddr::new(ip.to_canonical(), u16::from_str_radix(port, 16).expect("a port"))
}

#[tokio::test]
async fn a_detached_stack_says_where_it_is_stops_whole_and_finds_its_data_again() {
    service::runtime::install_crypto();
    let folder = TempFolder::create("dev").expect("a folder");
    let data = folder.path().join("data");
    let flag = data.display().to_string();
    let started =
        dev(&["--detach", "--data", &flag, "--tickers", "2", "--dispatchers", "2", "--agents", "1"]);
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let first = endpoints(&data);
    for (list, count) in [("tickers", 2), ("dispatchers", 2), ("watchdogs", 1), ("agents", 1), ("etcd", 1)] {
        assert_eq!(first[list].as_array().map(Vec::len), Some(count), "{list} in {first}");
    }
    assert!(first["postgres"].as_str().is_some_and(|url| url.starts_with("postgres://")));
    let pids = pids(&first);
    assert!(pids.iter().all(|pid| alive(*pid)), "{first}");
    let ports: Vec<_> = pids.iter().flat_map(|pid| listening(*pid)).collect();
    assert!(ports.len() >= 9, "{ports:?}");
    assert!(ports.iter().all(|address| address.ip().is_loopback()), "{ports:?}");

    let token =
        std::fs::read_to_string(first["adminTokenFile"].as_str().expect("a path")).expect("the token");
    let api = harness::Api::new(first["registry"]["rest"].as_str().expect("an address"), token.trim());
    let runs = api.wait_for_runs("heartbeat", "SUCCEEDED", 2).await;
    let oldest = runs[0]["name"].as_str().expect("a name").to_owned();

    let again = dev(&["--detach", "--data", &flag]);
    assert!(!again.status.success(), "two stacks in one folder");
    assert!(String::from_utf8_lossy(&again.stderr).contains("already"), "{again:?}");

    let stopped = dev(&["stop", "--data", &flag]);
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    assert!(!pids.iter().any(|pid| alive(*pid)), "something still runs");
    assert!(!data.join("endpoints.json").exists());

    let started = dev(&["--detach", "--data", &flag, "--no-sample-jobs"]);
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let second = endpoints(&data);
    let api = harness::Api::new(second["registry"]["rest"].as_str().expect("an address"), token.trim());
    let names: Vec<_> = api.runs("heartbeat").await.iter().map(|run| run["name"].clone()).collect();
    assert!(names.contains(&oldest.clone().into()), "{oldest} is gone from {names:?}");
    assert!(dev(&["stop", "--data", &flag]).status.success());
}
