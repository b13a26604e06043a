//! A whole local stack: etcd, PostgreSQL, and every service of Escapement, on free loopback ports under one
//! folder. The engine behind `escapement dev`, the end-to-end tests and the benchmarks.
//!
//! Invariants: all that it started ends with it; two stacks never share a folder (`lock`); a second start finds
//! the data, the tokens and the password of the first. Here `exec` and loopback addresses are allowed, which a
//! service allows nowhere by default.

mod endpoints;
mod links;
mod lock;
mod prepare;
mod service;

pub use endpoints::{ENDPOINTS_FILE, Endpoints, ProcessEndpoint, RegistryEndpoint};
pub use links::Links;
pub use lock::running;
pub use service::{Role, Service};

use crate::ending::{Late, end_together};
use crate::etcd::{self, Etcd};
use crate::postgres::{self, Postgres};
use crate::user::RunAs;
use crate::{StackError, error::file_error};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Where `escapement dev` keeps its things unless told otherwise.
pub const DATA_DEFAULT: &str = ".escapement";

/// How long each service may take to become ready.
const SERVICE_READY: Duration = Duration::from_secs(60);

/// How long all agents, and then all other services, may take to stop.
const SERVICE_STOP: Duration = Duration::from_secs(20);

/// What to start, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of everything: data, logs, settings, endpoints.json.
    pub data: PathBuf,
    /// Where the service binaries are.
    pub binaries: PathBuf,
    /// Tickers.
    pub tickers: usize,
    /// Dispatchers.
    pub dispatchers: usize,
    /// Watchdogs.
    pub watchdogs: usize,
    /// Agents.
    pub agents: usize,
    /// Runs at a time of each agent.
    pub agent_slots: usize,
    /// Whether data survives a crash of the machine.
    pub durable: bool,
    /// Settings for all services of a role beyond those that the stack itself makes, in TOML.
    pub settings: Vec<(Role, String)>,
    /// Settings of PostgreSQL beyond those that the stack itself makes.
    pub postgres: Vec<(String, String)>,
    /// Whether PostgreSQL is reached by TLS, and how.
    pub postgres_tls: Option<postgres::Tls>,
    /// Whether etcd is reached by TLS, and how; the services are told by `settings`.
    pub etcd_tls: Option<etcd::Tls>,
    /// Whether dispatchers reach PostgreSQL, and agents dispatchers, through [`Links`], which a test can cut.
    pub linked: bool,
}

impl Options {
    /// Two of what there should be two of, over data that lasts.
    pub fn durable(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            binaries: binaries(),
            tickers: 2,
            dispatchers: 2,
            watchdogs: 1,
            agents: 1,
            agent_slots: 16,
            durable: true,
            settings: Vec::new(),
            postgres: Vec::new(),
            postgres_tls: None,
            etcd_tls: None,
            linked: false,
        }
    }

    /// The same, as fast as it goes.
    pub fn for_tests(data: &Path) -> Self {
        Self { durable: false, ..Self::durable(data) }
    }

    /// Adds TOML lines to the settings of every service of `role`.
    #[must_use]
    pub fn setting(mut self, role: Role, toml: &str) -> Self {
        self.settings.push((role, toml.to_owned()));
        self
    }
}

/// Where PostgreSQL keeps its data: under `data`, unless we are root and the user that it drops to can't get there,
/// as in root's own home. Then it is under /var/lib, in a folder named after `data`.
fn postgres_folder(data: &Path) -> Result<PathBuf, StackError> {
    let closed = match RunAs::unprivileged()? {
        None => false,
        Some(user) => match user.check_reach(data) {
            Ok(()) => false,
            Err(StackError::Unreachable { .. }) => true,
            Err(error) => return Err(error),
        },
    };
    if !closed {
        return Ok(data.join("postgres"));
    }
    let name = data.display().to_string().trim_matches('/').replace('/', "-");
    let folder = Path::new("/var/lib/escapement-dev").join(name);
    std::fs::create_dir_all(&folder).map_err(file_error("making", &folder))?;
    tracing::info!("PostgreSQL's data are in {}: its user can't enter {}", folder.display(), data.display());
    Ok(folder)
}

/// The folder of this program's binaries; that of the build for a test, which is one folder deeper.
fn binaries() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new(".")).to_owned();
    if folder.ends_with("deps") { folder.parent().map(Path::to_owned).unwrap_or(folder) } else { folder }
}

/// A running stack. Dropping it kills what it started.
pub struct Stack {
    options: Options,
    // Declared, and so dropped, before the servers that they use.
    services: Vec<Service>,
    links: Links,
    etcd: Etcd,
    postgres: Postgres,
    _lock: lock::DataLock,
}

impl Stack {
    /// Starts everything and waits until each part is ready.
    ///
    /// # Errors
    /// Any [`StackError`]; what had been started is ended.
    pub async fn start(options: Options) -> Result<Self, StackError> {
        std::fs::create_dir_all(&options.data).map_err(file_error("making", &options.data))?;
        let options = Options {
            data: options.data.canonicalize().map_err(file_error("finding", &options.data))?,
            ..options
        };
        let lock = lock::DataLock::take(&options.data)?;
        endpoints::forget(&options.data)?;
        let mut etcd_options =
            if options.durable { etcd::Options::durable() } else { etcd::Options::for_tests() };
        let mut postgres_options =
            if options.durable { postgres::Options::durable() } else { postgres::Options::for_tests() };
        postgres_options.settings.extend(options.postgres.iter().cloned());
        postgres_options.tls.clone_from(&options.postgres_tls);
        etcd_options.tls.clone_from(&options.etcd_tls);
        let (etcd_folder, postgres_folder) = (options.data.join("etcd"), postgres_folder(&options.data)?);
        let (etcd, postgres) = tokio::try_join!(
            Etcd::start(&etcd_folder, etcd_options),
            Postgres::start(&postgres_folder, postgres_options)
        )?;
        prepare::run(&options, &postgres.url()).await?;
        let mut stack =
            Self { options, services: Vec::new(), links: Links::default(), etcd, postgres, _lock: lock };
        stack.start_services().await?;
        Ok(stack)
    }

    /// All of one kind at once; agents last, because they need the dispatchers' addresses.
    async fn start_services(&mut self) -> Result<(), StackError> {
        if self.options.linked {
            self.links.link_database(self.options.dispatchers, self.postgres.port()).await?;
        }
        for role in [Role::Registry, Role::Ticker, Role::Dispatcher, Role::Watchdog] {
            for number in 1..=self.count(role) {
                self.services.push(self.spawn(role, number)?);
            }
        }
        for service in &mut self.services {
            service.wait_ready(SERVICE_READY).await?;
        }
        if self.options.linked {
            let dispatchers = self.services.iter().filter(|service| service.role() == Role::Dispatcher);
            let dispatchers = dispatchers.map(|service| (service.name(), service.endpoint("grpc")));
            self.links.link_dispatchers(self.options.agents, dispatchers).await?;
        }
        for number in 1..=self.options.agents {
            let mut agent = self.spawn(Role::Agent, number)?;
            agent.wait_ready(SERVICE_READY).await?;
            self.services.push(agent);
        }
        Ok(())
    }

    const fn count(&self, role: Role) -> usize {
        match role {
            Role::Registry => 1,
            Role::Ticker => self.options.tickers,
            Role::Dispatcher => self.options.dispatchers,
            Role::Watchdog => self.options.watchdogs,
            Role::Agent => self.options.agents,
        }
    }

    fn spawn(&self, role: Role, number: usize) -> Result<Service, StackError> {
        let name = format!("{}-{number}", role.as_str());
        Service::spawn(&self.options, role, &name, &self.settings_of(role, &name))
    }

    /// The TOML of one service.
    fn settings_of(&self, role: Role, name: &str) -> String {
        let quoted =
            |items: &[String]| items.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", ");
        let mut toml = match role {
            Role::Agent => {
                let dispatchers = self.of(Role::Dispatcher).filter_map(|service| {
                    self.links.dispatcher(name, service.name()).or_else(|| service.endpoint("grpc"))
                });
                format!(
                    "dispatchers = [{}]\nworker_token_file = {:?}\nslots = {}\nexec_allowed = true\nhttp_allow_loopback = true\n",
                    quoted(&dispatchers.collect::<Vec<_>>()),
                    prepare::worker_file(&self.options.data),
                    self.options.agent_slots,
                )
            }
            _ => format!("database_url = {:?}\n", self.links.database_url(name, &self.postgres)),
        };
        if matches!(role, Role::Ticker | Role::Dispatcher | Role::Watchdog) {
            toml.push_str(&format!("etcd_endpoints = [{}]\n", quoted(&self.etcd.endpoints())));
        }
        if role == Role::Watchdog {
            toml.push_str("webhook_allow_loopback = true\n");
        }
        for (_, extra) in self.options.settings.iter().filter(|(of, _)| *of == role) {
            toml.push_str(extra);
            toml.push('\n');
        }
        toml
    }

    /// Adds one more service of a role.
    ///
    /// # Errors
    /// Any [`StackError`] that starting it can meet.
    pub async fn add(&mut self, role: Role) -> Result<&mut Service, StackError> {
        let number = self.of(role).count() + 1;
        let mut service = self.spawn(role, number)?;
        service.wait_ready(SERVICE_READY).await?;
        self.services.push(service);
        let last = self.services.len() - 1;
        Ok(&mut self.services[last])
    }

    /// Starts a service again that was killed or stopped, under the same name, settings and addresses: others were
    /// told where it listens.
    ///
    /// # Errors
    /// Any [`StackError`] that starting it can meet.
    pub async fn restart(&mut self, name: &str) -> Result<(), StackError> {
        let index = self.services.iter().position(|service| service.name() == name);
        let index = index.ok_or_else(|| StackError::UnknownService { name: name.to_owned() })?;
        let role = self.services[index].role();
        let settings = self.settings_of(role, name) + &self.services[index].listen_again();
        let mut service = Service::spawn(&self.options, role, name, &settings)?;
        service.wait_ready(SERVICE_READY).await?;
        self.services[index] = service;
        Ok(())
    }

    /// Where everything answers.
    pub fn endpoints(&self) -> Endpoints {
        let list = |role| self.of(role).map(Service::process_endpoint).collect();
        let registry = self.of(Role::Registry).next();
        let address = |which| registry.and_then(|service| service.endpoint(which)).unwrap_or_default();
        Endpoints {
            pid: std::process::id(),
            registry: RegistryEndpoint {
                rest: address("rest"),
                grpc: address("grpc"),
                pid: registry.map_or(0, Service::pid),
            },
            tickers: list(Role::Ticker),
            dispatchers: list(Role::Dispatcher),
            watchdogs: list(Role::Watchdog),
            agents: list(Role::Agent),
            etcd: self.etcd.endpoints(),
            postgres: self.postgres.url(),
            admin_token_file: prepare::admin_file(&self.options.data),
            worker_token_file: prepare::worker_file(&self.options.data),
        }
    }

    /// Writes `endpoints.json`: the sign that all is ready.
    ///
    /// # Errors
    /// [`StackError::File`].
    pub fn publish(&self) -> Result<(), StackError> {
        self.endpoints().write(&self.options.data)
    }

    /// The services of a role.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &Service> {
        self.services.iter().filter(move |service| service.role() == role)
    }

    /// One service by its name, such as `ticker-1`.
    ///
    /// # Errors
    /// [`StackError::UnknownService`].
    pub fn service(&mut self, name: &str) -> Result<&mut Service, StackError> {
        let found = self.services.iter_mut().find(|service| service.name() == name);
        found.ok_or_else(|| StackError::UnknownService { name: name.to_owned() })
    }

    /// The connections that can be cut; there are some only when the options ask for them.
    pub const fn links(&self) -> &Links {
        &self.links
    }

    /// The PostgreSQL server.
    pub fn postgres(&mut self) -> &mut Postgres {
        &mut self.postgres
    }

    /// The etcd server.
    pub fn etcd(&mut self) -> &mut Etcd {
        &mut self.etcd
    }

    /// Services that have ended since the last look, and how.
    pub fn ended(&mut self) -> Vec<(String, ExitStatus)> {
        self.services.iter_mut().filter_map(Service::newly_ended).collect()
    }

    /// Stops everything, services first, and removes `endpoints.json`.
    ///
    /// # Errors
    /// The first [`StackError`] met; the rest is ended all the same when the stack is dropped.
    pub async fn stop(self) -> Result<(), StackError> {
        self.stop_telling(&|_| {}).await
    }

    /// As [`Self::stop`], within a minute; tells `late` of the services that take longer than two seconds.
    ///
    /// # Errors
    /// As [`Self::stop`].
    pub async fn stop_telling(mut self, late: &(dyn Fn(&[Late]) + Sync)) -> Result<(), StackError> {
        endpoints::forget(&self.options.data)?;
        // Agents first: their runs are finished and reported while somebody listens.
        for agents in [true, false] {
            let services =
                self.services.iter_mut().filter(|service| (service.role() == Role::Agent) == agents);
            let mut children: Vec<_> = services.map(Service::process).collect();
            end_together(&mut children, SERVICE_STOP, late).await?;
        }
        tokio::try_join!(self.postgres.stop(postgres::Stop::Fast), self.etcd.stop()).map(drop)
    }
}
