//! A single etcd member on loopback.
//!
//! Stopped and started again it keeps its data and its ports, so that clients find it again. It runs as the
//! launching user. Clusters and authentication are not its business.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::StackError;
use crate::error::file_error;
use crate::ports::Port;
use crate::process::{ManagedChild, Signal, Spec};
use crate::wait::POLL_EVERY;

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_GRACE: Duration = Duration::from_secs(10);
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// How it is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether writes survive a crash of the machine. A killed process loses nothing either way.
    pub durable: bool,
    /// Whether clients reach it by TLS, and how.
    pub tls: Option<Tls>,
}

/// What it shows to clients, and what it asks of them.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Its certificate, in PEM.
    pub certificate_file: PathBuf,
    /// The key of that certificate, in PEM.
    pub key_file: PathBuf,
    /// Authorities, in PEM, one of which must have signed the certificate that each client has to show.
    pub client_ca_file: PathBuf,
}

impl Options {
    /// As fast as it goes.
    pub const fn for_tests() -> Self {
        Self { durable: false, tls: None }
    }

    /// For data that matters.
    pub const fn durable() -> Self {
        Self { durable: true, tls: None }
    }
}

/// An etcd server; dropping it kills it.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    dir: PathBuf,
    options: Options,
    ports: Ports,
    server: Option<ManagedChild>,
}

#[derive(Debug)]
struct Ports {
    client: Port,
    peer: Port,
    /// Answers whether it is healthy, always in the clear.
    health: Port,
}

impl Ports {
    fn reserve() -> Result<Self, StackError> {
        Ok(Self { client: Port::reserve()?, peer: Port::reserve()?, health: Port::reserve()? })
    }
}

impl Etcd {
    /// Starts it over the data in `dir`, which is created when missing, and waits until it answers.
    ///
    /// # Errors
    /// Any [`StackError`] that starting a server can meet; those of the server carry its log.
    pub async fn start(dir: &Path, options: Options) -> Result<Self, StackError> {
        std::fs::create_dir_all(dir).map_err(file_error("creating", dir))?;
        let program = crate::binary::etcd()?;
        let ports = Ports::reserve()?;
        let mut etcd = Self { program, dir: dir.to_owned(), options, ports, server: None };
        let began = Instant::now();
        loop {
            match etcd.launch().await {
                Err(StackError::Exited { log_tail, .. })
                    if port_taken(&log_tail) && began.elapsed() < START_LIMIT =>
                {
                    etcd.ports = Ports::reserve()?;
                }
                outcome => return outcome.map(|()| etcd),
            }
        }
    }

    /// Starts it again after [`Etcd::stop`] or [`Etcd::kill`], on the same ports and data.
    ///
    /// # Errors
    /// As [`Etcd::start`].
    pub async fn start_again(&mut self) -> Result<(), StackError> {
        let began = Instant::now();
        loop {
            match self.launch().await {
                Err(StackError::Exited { log_tail, .. })
                    if port_taken(&log_tail) && began.elapsed() < START_LIMIT =>
                {
                    tokio::time::sleep(POLL_EVERY).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Stops it in an orderly way (SIGTERM).
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub async fn stop(&mut self) -> Result<(), StackError> {
        match self.server.take() {
            Some(mut server) => server.terminate(STOP_GRACE).await.map(drop),
            None => Ok(()),
        }
    }

    /// Kills it (SIGKILL).
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub fn kill(&mut self) -> Result<(), StackError> {
        self.server.take().map_or(Ok(()), |mut server| server.kill().map(drop))
    }

    /// Stops it and starts it again.
    ///
    /// # Errors
    /// As [`Etcd::start`].
    pub async fn restart(&mut self) -> Result<(), StackError> {
        self.stop().await?;
        self.start_again().await
    }

    /// Replaces it by a new, empty one on the same ports, as after the loss of a whole cluster: revisions begin anew.
    ///
    /// # Errors
    /// As [`Etcd::start`].
    pub async fn rebuild(&mut self) -> Result<(), StackError> {
        self.kill()?;
        let data = self.dir.join("data");
        std::fs::remove_dir_all(&data).map_err(file_error("removing", data))?;
        self.start_again().await
    }

    /// Freezes it (SIGSTOP): connections stay open and nothing answers.
    ///
    /// # Errors
    /// [`StackError::Process`], [`StackError::Stopped`].
    pub fn freeze(&self) -> Result<(), StackError> {
        self.running()?.stop()
    }

    /// Thaws it (SIGCONT).
    ///
    /// # Errors
    /// [`StackError::Process`], [`StackError::Stopped`].
    pub fn thaw(&self) -> Result<(), StackError> {
        self.running()?.cont()
    }

    /// Where clients connect.
    pub fn endpoints(&self) -> Vec<String> {
        vec![self.client_url()]
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(ManagedChild::pid)
    }

    fn client_url(&self) -> String {
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        url(&self.ports.client).replacen("http", scheme, 1)
    }

    fn running(&self) -> Result<&ManagedChild, StackError> {
        self.server.as_ref().ok_or(StackError::Stopped { name: "etcd" })
    }

    async fn launch(&mut self) -> Result<(), StackError> {
        let mut server = ManagedChild::spawn(&self.spec())?;
        let began = Instant::now();
        while !healthy(self.ports.health.number()).await {
            if let Some(status) = server.exited()? {
                return Err(StackError::Exited { name: "etcd".into(), status, log_tail: server.log_tail() });
            }
            if began.elapsed() > START_LIMIT {
                let log_tail = server.log_tail();
                return Err(StackError::NotReady { name: "etcd".into(), limit: START_LIMIT, log_tail });
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        self.server = Some(server);
        Ok(())
    }

    fn spec(&self) -> Spec {
        let (client, peer, health) = (self.client_url(), url(&self.ports.peer), url(&self.ports.health));
        let mut spec = Spec::new("etcd", &self.program, self.dir.join("etcd.log"))
            .clear_env()
            .arg("--name=escapement")
            .arg(format!("--data-dir={}", self.dir.join("data").display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=escapement={peer}"))
            .arg(format!("--listen-metrics-urls={health}"))
            .args(["--logger=zap", "--log-outputs=stderr"])
            // A crash loses nothing that etcd acknowledged, so the surest signal will do.
            .on_launcher_death(Signal::SIGKILL);
        if !self.options.durable {
            spec = spec.arg("--unsafe-no-fsync");
        }
        if let Some(tls) = &self.options.tls {
            let file = |name: &str, path: &Path| format!("--{name}={}", path.display());
            spec = spec
                .arg("--client-cert-auth")
                .arg(file("cert-file", &tls.certificate_file))
                .arg(file("key-file", &tls.key_file))
                .arg(file("trusted-ca-file", &tls.client_ca_file));
        }
        spec
    }
}

fn url(port: &Port) -> String {
    format!("http://127.0.0.1:{}", port.number())
}

fn port_taken(log: &str) -> bool {
    log.contains("address already in use")
}

/// Whether the server commits: its health page answers only after a read through the quorum.
async fn healthy(port: u16) -> bool {
    let ask = move || -> std::io::Result<bool> {
        let mut stream =
            TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), HEALTH_TIMEOUT)?;
        stream.set_read_timeout(Some(HEALTH_TIMEOUT))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.contains(r#""health":"true""#))
    };
    tokio::task::spawn_blocking(ask).await.is_ok_and(|answer| answer.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_recognised_in_the_log() {
        let line = r#"{"level":"fatal","msg":"discovery failed","error":"listen tcp 127.0.0.1:2379: bind: address already in use"}"#;
        assert!(port_taken(line));
        assert!(!port_taken(r#"{"level":"fatal","msg":"discovery failed"}"#));
    }
}
