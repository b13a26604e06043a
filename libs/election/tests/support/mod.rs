//! What the election tests share: clients of a fresh cell, and a hand in etcd beside them.

#![allow(dead_code, reason = "each test file uses its part")]

use std::time::Duration;

use election::client::LEASE_TTL_MIN;
use election::{Candidate, Client, Config, ElectionError, Leadership, Role, Tls, campaign};
use stack::etcd::{Etcd, Options};
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Long enough for a lease to expire and for a busy machine.
pub const LIMIT: Duration = Duration::from_secs(20);
pub const TTL: Duration = LEASE_TTL_MIN;

pub fn config(endpoints: Vec<String>) -> Config {
    let cell = format!("test_{}", Uuid::new_v4().simple());
    Config { endpoints, cell, lease_ttl: TTL, credentials: None, tls: Tls::default() }
}

/// An etcd of the test's own, for whoever stops or freezes it.
pub async fn own_etcd() -> (Etcd, TempFolder) {
    let folder = TempFolder::create("election").unwrap();
    (Etcd::start(folder.path(), Options::for_tests()).await.unwrap(), folder)
}

pub fn candidate(name: &str) -> Candidate {
    Candidate {
        role: Role::Ticker,
        name: name.into(),
        uuid: Uuid::new_v4(),
        pid: std::process::id(),
        http: "http://127.0.0.1:9".into(),
    }
}

pub async fn elect(client: &Client, name: &str) -> Leadership {
    let candidate = candidate(name);
    let campaigning = campaign(client, &candidate, CancellationToken::new());
    tokio::time::timeout(LIMIT, campaigning).await.expect("elected in time").unwrap().expect("no shutdown")
}

pub type Campaign = JoinHandle<Result<Option<Leadership>, ElectionError>>;

/// Stands in the background.
pub fn stand(client: &Client, name: &str, shutdown: &CancellationToken) -> Campaign {
    let (client, candidate, shutdown) = (client.clone(), candidate(name), shutdown.clone());
    tokio::spawn(async move { campaign(&client, &candidate, shutdown).await })
}

pub async fn elected(campaign: Campaign) -> Leadership {
    let result = tokio::time::timeout(LIMIT, campaign).await.expect("elected in time");
    result.expect("no panic").unwrap().expect("no shutdown")
}

/// A hand in etcd that bypasses the crate.
pub struct Hand {
    pub etcd: etcd_client::Client,
    prefix: String,
}

impl Hand {
    pub async fn reach(config: &Config) -> Self {
        let etcd = etcd_client::Client::connect(&config.endpoints, None).await.unwrap();
        Self { etcd, prefix: format!("/escapement/{}/", config.cell) }
    }

    /// Keys below `path`, oldest first, with their leases.
    pub async fn keys(&mut self, path: &str) -> Vec<(String, i64)> {
        use etcd_client::{GetOptions, SortOrder, SortTarget};
        let options = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend);
        let read = self.etcd.get(format!("{}{path}", self.prefix), Some(options)).await.unwrap();
        read.kvs().iter().map(|found| (found.key_str().unwrap().to_owned(), found.lease())).collect()
    }

    /// Waits until `count` candidates are enqueued; their leases, oldest first.
    pub async fn candidates(&mut self, count: usize) -> Vec<i64> {
        wait_for(LIMIT, &format!("{count} candidates"), async || {
            let found = self.keys("election/ticker/").await;
            (found.len() == count).then(|| found.into_iter().map(|(_, lease)| lease).collect())
        })
        .await
    }

    pub async fn put(&mut self, path: &str, value: &str) {
        self.etcd.put(format!("{}{path}", self.prefix), value, None).await.unwrap();
    }
}
