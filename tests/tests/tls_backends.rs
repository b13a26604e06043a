//! TLS to PostgreSQL and etcd: who trusts whom, what is said when they don't, and a whole cell that speaks nothing else.

use election::ElectionError;
use harness::authority::{Authority, Certified};
use harness::{Cell, job, noop};
use stack::dev::{Options, Role};
use stack::etcd::{self, Etcd};
use stack::postgres::{self, Postgres};
use stack::testkit::TempFolder;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use store::{Settings, Store, StoreError, clock};

/// Those that know PostgreSQL.
const STORING: [Role; 4] = [Role::Registry, Role::Ticker, Role::Dispatcher, Role::Watchdog];
/// Those that know etcd.
const ELECTING: [Role; 3] = [Role::Ticker, Role::Dispatcher, Role::Watchdog];

/// Authorities of both sides, and the files that clients have.
struct Files {
    servers: Authority,
    clients: Authority,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn new(folder: &Path) -> Self {
        let (servers, clients) = (Authority::new(), Authority::new());
        let ca = servers.write(folder, "servers.pem");
        let (certificate, key) = clients.issue().write(folder, "client");
        private(&key);
        Self { servers, clients, ca, certificate, key }
    }

    /// How PostgreSQL is reached by these files, in libpq's words.
    fn query(&self) -> String {
        let (ca, certificate, key) = (self.ca.display(), self.certificate.display(), self.key.display());
        format!("sslmode=verify-full&sslrootcert={ca}&sslcert={certificate}&sslkey={key}")
    }

    fn postgres(&self) -> postgres::Tls {
        let Certified { certificate, key } = self.servers.issue();
        let client_ca = Some(self.clients.pem.clone());
        postgres::Tls { certificate, key, client_ca, query: self.query() }
    }

    fn etcd(&self, folder: &Path) -> etcd::Tls {
        let (certificate_file, key_file) = self.servers.issue().write(folder, "etcd");
        etcd::Tls { certificate_file, key_file, client_ca_file: self.clients.write(folder, "clients.pem") }
    }
}

/// As libpq wants a key.
fn private(key: &Path) {
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).expect("own file");
}

/// An error with all its causes.
fn chain(error: &StoreError) -> String {
    service::runtime::chain(error)
}

async fn asks(server: &Postgres, query: &str) -> Result<(), StoreError> {
    let plain = server.url().split('?').next().expect("an address").to_owned();
    let settings = Settings::new(format!("{plain}?{query}"), "main", "test");
    // The clock is of the schema, which nobody has made: an answer all the same.
    match clock::now(&Store::new(settings)?).await {
        Err(StoreError::Database { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(now) => panic!("a database without a schema says {now}"),
    }
}

#[tokio::test]
async fn postgres_and_who_asks_it_know_each_other_by_their_certificates() {
    let folder = TempFolder::create("tls-postgres").expect("a folder");
    let files = Files::new(folder.path());
    let tls = Some(files.postgres());
    let options = postgres::Options { tls, ..postgres::Options::for_tests() };
    let server = Postgres::start(folder.path(), options).await.expect("PostgreSQL by TLS");
    let stranger = Authority::new();
    let strange_ca = stranger.write(folder.path(), "stranger.pem");
    let (strange, strange_key) = stranger.issue().write(folder.path(), "stranger");
    let ca = format!("sslrootcert={}", files.ca.display());
    let own = format!("sslcert={}&sslkey={}", files.certificate.display(), files.key.display());
    let strange_own = format!("sslcert={}&sslkey={}", strange.display(), strange_key.display());
    for query in [
        files.query(),
        format!("sslmode=verify-ca&{ca}&{own}"),
        format!("sslmode=require&{own}"),
        format!("sslmode=prefer&{own}"),
        own.clone(),
    ] {
        asks(&server, &query).await.unwrap_or_else(|error| panic!("{query}: {}", chain(&error)));
    }
    let strange_ca = format!("sslrootcert={}", strange_ca.display());
    let untrusted = "is signed by none of the authorities that sslrootcert names";
    for (query, said) in [
        (format!("sslmode=verify-full&{strange_ca}&{own}"), untrusted),
        (format!("sslmode=verify-ca&{strange_ca}&{own}"), untrusted),
        (format!("sslmode=require&{strange_ca}&{own}"), untrusted),
        (format!("sslmode=verify-full&{own}"), untrusted),
        ("sslmode=disable".to_owned(), "no encryption"),
        (format!("sslmode=verify-full&{ca}"), "connection requires a valid client certificate"),
        (
            format!("sslmode=verify-full&{ca}&{strange_own}"),
            "does not accept the certificate that sslcert names",
        ),
        (
            format!("sslmode=verify-full&{ca}&sslcert=/nowhere.pem&sslkey=/nowhere.key"),
            "sslcert: cannot read /nowhere.pem",
        ),
        (
            format!("sslmode=verify-full&{ca}&sslcert={}&sslkey={}", strange.display(), files.key.display()),
            "is not the key of",
        ),
    ] {
        let refused = asks(&server, &query).await.expect_err(&query);
        assert!(chain(&refused).contains(said), "{query}: {}", chain(&refused));
    }
    // A server by another name: the authority is right, the host is not.
    let by_name = server.url().replace("127.0.0.1", "localhost");
    let elsewhere = Store::new(Settings::new(by_name, "main", "test")).expect("sound settings");
    let refused = chain(&clock::now(&elsewhere).await.expect_err("another host"));
    assert!(refused.contains("is not for the host that database_url names"), "{refused}");
}

#[tokio::test]
async fn files_for_postgres_that_change_are_used_by_the_next_connection() {
    let folder = TempFolder::create("tls-change").expect("a folder");
    let files = Files::new(folder.path());
    let tls = Some(files.postgres());
    let options = postgres::Options { tls, ..postgres::Options::for_tests() };
    let server = Postgres::start(folder.path(), options).await.expect("PostgreSQL by TLS");
    let store = Store::new(Settings::new(server.url(), "main", "test")).expect("sound settings");
    let connects = async || store.client("look").await.map(std::mem::forget);
    connects().await.expect("as it began");
    // What can't be used changes nothing.
    std::fs::write(&files.ca, "no certificate").expect("written");
    connects().await.expect("by the authority before");
    Authority::new().write(folder.path(), "servers.pem");
    let refused = connects().await.expect_err("another authority is trusted now");
    assert!(matches!(refused, StoreError::Tls { .. }), "{}", chain(&refused));
    files.servers.write(folder.path(), "servers.pem");
    connects().await.expect("the first authority is trusted again");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_by_who_requires_it() {
    let server = stack::testkit::shared_postgres().await;
    let refused = asks(server, "sslmode=require").await.expect_err("it has no TLS");
    assert!(chain(&refused).contains("server does not support TLS"), "{}", chain(&refused));
    for query in ["sslmode=prefer", "sslmode=disable", ""] {
        asks(server, query).await.unwrap_or_else(|error| panic!("{query}: {}", chain(&error)));
    }
}

fn electing(endpoints: Vec<String>, tls: election::Tls) -> election::Config {
    let lease_ttl = Duration::from_secs(5);
    election::Config { endpoints, cell: "main".to_owned(), lease_ttl, credentials: None, tls }
}

#[tokio::test]
async fn etcd_and_who_asks_it_know_each_other_by_their_certificates() {
    service::runtime::install_crypto();
    let folder = TempFolder::create("tls-etcd").expect("a folder");
    let files = Files::new(folder.path());
    let tls = Some(files.etcd(folder.path()));
    let server = Etcd::start(folder.path(), etcd::Options { tls, ..etcd::Options::for_tests() }).await;
    let server = server.expect("etcd by TLS");
    let stranger = Authority::new();
    let strange_ca = Some(stranger.write(folder.path(), "stranger.pem"));
    let strange = Some(stranger.issue().write(folder.path(), "stranger"));
    let (ca, own) = (Some(files.ca.clone()), Some((files.certificate.clone(), files.key.clone())));
    let connect = async |ca_file: &Option<PathBuf>, identity: &Option<(PathBuf, PathBuf)>| {
        let tls = election::Tls { ca_file: ca_file.clone(), identity: identity.clone() };
        election::Client::connect(&electing(server.endpoints(), tls)).await.map(drop)
    };
    connect(&ca, &own).await.unwrap_or_else(|error| panic!("{}", service::runtime::chain(&error)));
    for (ca, identity, said) in [
        (&strange_ca, &own, "signed by none of the authorities that etcd_ca_file names"),
        (&None, &own, "signed by none of the authorities that etcd_ca_file names"),
        (&ca, &strange, "etcd_client_certificate_file names"),
        (&ca, &None, "etcd_client_certificate_file names"),
        (&ca, &Some(("/nowhere.pem".into(), "/nowhere.key".into())), "cannot read /nowhere.pem"),
    ] {
        let refused = connect(ca, identity).await.expect_err(said);
        let text = service::runtime::chain(&refused);
        assert!(refused.is_doubt() && text.contains(said), "{text}");
    }
    let plain = server.endpoints().iter().map(|one| one.replacen("https", "http", 1)).collect();
    let refused = election::Client::connect(&electing(plain, election::Tls::default())).await;
    assert!(matches!(refused, Err(ElectionError::Doubt { .. })), "in the clear: {refused:?}");
}

#[tokio::test]
async fn a_cell_works_whose_postgres_and_etcd_take_known_clients_by_tls_only() {
    let mut query = String::new();
    let mut cell = Cell::start_with(|mut options| {
        let folder = options.data.join("tls");
        let files = Files::new(&folder);
        query = files.query();
        options.postgres_tls = Some(files.postgres());
        options.etcd_tls = Some(files.etcd(&folder));
        let (ca, certificate, key) = (&files.ca, &files.certificate, &files.key);
        let toml = format!(
            "etcd_ca_file = {ca:?}\netcd_client_certificate_file = {certificate:?}\netcd_client_key_file = {key:?}\n"
        );
        ELECTING.into_iter().fold(options, |options, role| options.setting(role, &toml))
    })
    .await;
    cell.api.create(job("secured", "* * * * * *", noop())).await;
    cell.api.wait_for_runs("secured", "SUCCEEDED", 2).await;
    refuses_what_is_wrong(&mut cell, &query).await;
    cell.stop().await;
}

/// What each program says of an address that can't be had.
async fn refuses_what_is_wrong(cell: &mut Cell, query: &str) {
    let plain = cell.stack.postgres().url().split('?').next().expect("an address").to_owned();
    let wrong = query.replace("sslmode=verify-full", "sslmode=allow");
    let binaries = Options::for_tests(cell.folder()).binaries;
    for role in STORING {
        let program = binaries.join(format!("escapement-{}", role.as_str()));
        let mut command = Command::new(program);
        command.env("ESCAPEMENT_DATABASE_URL", format!("{plain}?{wrong}"));
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{}: {said}", role.as_str());
        assert!(
            said.contains("database_url: the PostgreSQL settings are wrong: sslmode=allow is not supported"),
            "{said}"
        );
    }
    let stranger = Authority::new().write(&cell.folder().join("tls"), "stranger.pem");
    let right = cell.folder().join("tls").join("servers.pem").display().to_string();
    let migrate = |query: &str| {
        let mut command = Command::new(binaries.join("escapement"));
        command.arg("migrate").env("ESCAPEMENT_DATABASE_URL", format!("{plain}?{query}"));
        command.output().expect("it starts")
    };
    assert!(migrate(query).status.success());
    let refused = migrate(&query.replace(&right, &stranger.display().to_string()));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("none of the authorities that sslrootcert"), "{said}");
    let refused = migrate("sslmode=disable");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no encryption"), "{refused:?}");
}
