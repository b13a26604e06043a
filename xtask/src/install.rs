//! Installs the servers that Escapement runs on, and the compiler that the build of the etcd client asks for,
//! from the distribution's packages. Says what it will do, and asks.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something that must be on the machine, and the packages that bring it.
struct Need {
    what: &'static str,
    /// Only tests need it.
    for_tests: bool,
    packages: &'static [&'static str],
    present: fn() -> bool,
}

/// What a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A local stack.
    Run,
    /// Every test as well.
    Test,
}

const NEEDS: [Need; 9] = [
    Need {
        what: "etcd",
        for_tests: false,
        packages: &["etcd-server", "etcd-client"],
        present: || on_path("etcd") && on_path("etcdctl"),
    },
    Need {
        what: "PostgreSQL",
        for_tests: false,
        packages: &["postgresql", "postgresql-client"],
        present: postgres,
    },
    Need {
        what: "protoc with its well-known types",
        for_tests: false,
        packages: &["protobuf-compiler", "libprotobuf-dev"],
        present: || on_path("protoc") && Path::new("/usr/include/google/protobuf/descriptor.proto").is_file(),
    },
    Need {
        what: "a C compiler and linker",
        for_tests: false,
        packages: &["gcc", "libc6-dev"],
        present: || on_path("cc"),
    },
    Need {
        what: "Redis, for the tests of its guard",
        for_tests: true,
        packages: &["redis-server"],
        present: || on_path("redis-server"),
    },
    Need {
        what: "Alertmanager, for the tests of what it is told",
        for_tests: true,
        packages: &["prometheus-alertmanager"],
        present: || Path::new("/usr/bin/prometheus-alertmanager").is_file(),
    },
    Need {
        what: "a mail server for tests, and certificates for it",
        for_tests: true,
        packages: &["python3-aiosmtpd", "openssl"],
        present: || Path::new("/usr/lib/python3/dist-packages/aiosmtpd").is_dir() && on_path("openssl"),
    },
    Need {
        what: "libfaketime, for the test of a clock that is off",
        for_tests: true,
        packages: &["faketime"],
        present: || on_path("faketime"),
    },
    Need {
        what: "Python with venv, for the tests of its worker",
        for_tests: true,
        packages: &["python3", "python3-venv", "ca-certificates"],
        present: python,
    },
];

/// Installs what is missing; does nothing when all is there.
pub fn missing(purpose: Purpose, yes: bool) -> Result<(), String> {
    let needed = |need: &&Need| purpose == Purpose::Test || !need.for_tests;
    let missing: Vec<&Need> = NEEDS.iter().filter(needed).filter(|need| !(need.present)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what: Vec<_> = missing.iter().map(|need| need.what).collect();
    let packages: Vec<_> = missing.iter().flat_map(|need| need.packages).copied().collect();
    if !on_path("apt-get") {
        return Err(format!(
            "missing: {}. This machine has no apt-get; install the equivalents of these Debian packages yourself: {}",
            what.join(", "),
            packages.join(" ")
        ));
    }
    println!("Missing: {}.", what.join(", "));
    println!("Installing from the distribution's packages: {}", packages.join(" "));
    if !yes && std::io::stdin().is_terminal() && !confirmed() {
        return Err("nothing was installed".to_owned());
    }
    apt_get(&["update", "-qq"])?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends", "-qq"];
    arguments.extend(&packages);
    apt_get(&arguments)?;
    match NEEDS.iter().filter(needed).find(|need| !(need.present)()) {
        None => Ok(()),
        Some(need) => {
            Err(format!("{} is still missing after installing {}", need.what, need.packages.join(" ")))
        }
    }
}

fn confirmed() -> bool {
    print!("Go on? [Y/n] ");
    let mut answer = String::new();
    let asked = std::io::stdout().flush().and_then(|()| std::io::stdin().read_line(&mut answer));
    asked.is_ok() && matches!(answer.trim(), "" | "y" | "Y" | "yes")
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let as_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let mut command = if as_root { Command::new("apt-get") } else { Command::new("sudo") };
    if !as_root {
        // sudo passes on no environment by default.
        command.args(["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get"]);
    }
    // At run level 1 the packages' own servers are not started: ours run on ports of their own.
    command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1").args(arguments);
    let status = command.status().map_err(|error| format!("apt-get can't be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`apt-get {}` failed: {status}", arguments.join(" "))) }
}

fn on_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// Debian keeps the server's programs outside PATH, by version.
fn postgres() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    folders.iter().any(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        && on_path("psql")
}

/// Debian splits off what a new environment needs.
fn python() -> bool {
    let environments = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    environments.is_ok_and(|output| output.status.success())
}
