use super::*;
use crate::health::serve_incoming;
use axum::Router;
use axum::routing::get;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Longer than a look at the files is away, on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Certificate and key for this machine.
    fn issue(&self) -> (String, String) {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("a certificate").pem(), key.serialize_pem())
    }
}

/// A folder with `certificate`, `key` and `ca`; gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("escapement-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn put(&self, (certificate, key): &(String, String)) {
        self.write("certificate", certificate);
        self.write("key", key);
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("written");
    }

    fn files(&self, with_clients: bool) -> Files {
        let path = |name: &str| self.0.join(name);
        Files {
            certificate: path("certificate"),
            key: path("key"),
            client_ca: with_clients.then(|| path("ca")),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn start(files: Files) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let incoming =
        Incoming::new(listener, Some(Tls::follow(files).expect("sound files"))).expect("an address");
    assert!(incoming.url().starts_with("https://127.0.0.1:"), "{}", incoming.url());
    let router = Router::new().route("/", get(async || "hello"));
    serve_incoming(incoming, router, CancellationToken::new()).address
}

/// A client that trusts `authority` only, and shows `identity`; each has connections of its own.
fn client(authority: &Authority, identity: Option<&(String, String)>) -> reqwest::Client {
    crate::runtime::install_crypto();
    let trusted = reqwest::Certificate::from_pem(authority.pem.as_bytes()).expect("PEM");
    let mut builder = reqwest::Client::builder().tls_certs_only([trusted]).no_proxy();
    if let Some((certificate, key)) = identity {
        let both = format!("{certificate}{key}");
        builder = builder.identity(reqwest::Identity::from_pem(both.as_bytes()).expect("PEM"));
    }
    builder.build().expect("a client")
}

async fn greets(client: &reqwest::Client, address: SocketAddr) -> bool {
    let answer = client.get(format!("https://{address}/")).send().await;
    matches!(answer, Ok(answer) if answer.status() == 200)
}

async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !holds().await {
        assert!(Instant::now() < until, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn problem(files: &Files) -> String {
    files.check().expect_err("it can't be used").to_string()
}

#[test]
fn half_a_configuration_names_the_other_half() {
    let problem = |common: Common| Files::of(&common).expect_err("a half").to_string();
    let path = || Some(PathBuf::from("/x"));
    let only = Common { tls_certificate_file: path(), ..Common::default() };
    assert_eq!(problem(only), "tls_key_file: is missing, and tls_certificate_file is set: give both");
    let only = Common { tls_key_file: path(), ..Common::default() };
    assert_eq!(problem(only), "tls_certificate_file: is missing, and tls_key_file is set: give both");
    let only = Common { tls_client_ca_file: path(), ..Common::default() };
    assert_eq!(problem(only), "tls_certificate_file: is missing, and tls_client_ca_file is set: give both");
    assert_eq!(Files::of(&Common::default()).expect("nothing is set"), None);
}

#[test]
fn files_that_can_not_be_used_are_named_with_what_is_wrong() {
    let (folder, authority) = (Folder::new("wrong"), Authority::new());
    let (mine, other) = (authority.issue(), authority.issue());
    let missing = problem(&folder.files(false));
    assert!(missing.starts_with("tls_certificate_file: cannot read "), "{missing}");
    folder.put(&(mine.0.clone(), other.1));
    let unfit = problem(&folder.files(false));
    assert!(unfit.starts_with("tls_key_file: ") && unfit.contains("is not the key of the first"), "{unfit}");
    folder.put(&(mine.0.clone(), mine.0.clone()));
    let keyless = problem(&folder.files(false));
    assert!(keyless.starts_with("tls_key_file: ") && keyless.contains("no private key"), "{keyless}");
    folder.put(&("hello".to_owned(), mine.1.clone()));
    let empty = problem(&folder.files(false));
    assert!(empty.contains("holds no certificate in PEM"), "{empty}");
    folder.put(&mine);
    folder.write("ca", "hello");
    let nobody = problem(&folder.files(true));
    assert!(nobody.starts_with("tls_client_ca_file: "), "{nobody}");
    folder.files(false).check().expect("sound");
}

#[tokio::test]
async fn only_the_right_authority_is_trusted_and_nothing_is_answered_in_the_clear() {
    let (folder, authority) = (Folder::new("trust"), Authority::new());
    folder.put(&authority.issue());
    let address = start(folder.files(false)).await;
    assert!(greets(&client(&authority, None), address).await);
    assert!(!greets(&client(&Authority::new(), None), address).await, "a foreign authority");
    let plain = reqwest::Client::builder().no_proxy().build().expect("a client");
    assert!(plain.get(format!("http://{address}/")).send().await.is_err(), "in the clear");
}

#[tokio::test]
async fn with_a_clients_authority_nobody_comes_in_without_its_certificate() {
    let (folder, authority, clients) = (Folder::new("clients"), Authority::new(), Authority::new());
    folder.put(&authority.issue());
    folder.write("ca", &clients.pem);
    let address = start(folder.files(true)).await;
    assert!(greets(&client(&authority, Some(&clients.issue())), address).await);
    assert!(!greets(&client(&authority, None), address).await, "no certificate");
    assert!(!greets(&client(&authority, Some(&authority.issue())), address).await, "another authority's");

    let next = Authority::new();
    folder.write("ca", &next.pem);
    let identity = next.issue();
    wait_until("the clients' next authority", async || {
        greets(&client(&authority, Some(&identity)), address).await
    })
    .await;
    assert!(!greets(&client(&authority, Some(&clients.issue())), address).await, "the one before");
}

#[tokio::test]
async fn new_files_are_taken_broken_ones_are_not_and_a_connection_outlives_both() {
    let (folder, first, second) = (Folder::new("reload"), Authority::new(), Authority::new());
    folder.put(&first.issue());
    let address = start(folder.files(false)).await;
    let standing = client(&first, None);
    assert!(greets(&standing, address).await);

    let looks = Instant::now();
    let next = second.issue();
    folder.write("certificate", &next.0);
    while looks.elapsed() < Duration::from_secs(5) {
        assert!(greets(&client(&first, None), address).await, "half a pair was taken");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    folder.write("key", &next.1);
    wait_until("the new certificate", async || greets(&client(&second, None), address).await).await;
    assert!(!greets(&client(&first, None), address).await, "the old certificate is still shown");
    assert!(greets(&standing, address).await, "the connection was made before");
}
