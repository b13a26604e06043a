//! Telling without a database: each channel once that it is gone, and once that it is back.
//!
//! Invariant: identity and key of a message are made of the cell, the outage's number and the channel, so that receivers
//! fold what several watchdogs send. Only a channel that has heard of the outage is told of its end. Bounded: a task for
//! each channel, which ends with the outage, or gives up. A watchdog that ends before the outage does tells no end; those
//! that saw the outage with it do.

use super::known::Waiting;
use super::words::{self, Many, Outage};
use crate::channel::{self, Letter, Outcome};
use crate::message::{Event, Message};
use chrono::{DateTime, Utc};
use service::egress::Egress;
use sha2::{Digest, Sha256};
use std::time::{Duration, Instant};
use store::alert_channel::Channel;
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

/// The wait after the first try in vain; doubled for each further one.
const BACKOFF: Duration = Duration::from_secs(1);

/// The longest wait between two tries.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// For how long a message is tried.
const GIVE_UP: Duration = Duration::from_secs(3_600);

/// The way out.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The client.
    pub egress: Egress,
    /// For one answer.
    pub timeout: Duration,
    /// The cell's name.
    pub cell: String,
    /// Where the runbooks are; may be empty.
    pub runbooks: String,
}

/// An outage that is being told. Dropped, it tells nothing any more.
pub struct Telling {
    /// Its number.
    pub number: i64,
    /// The identity of its alert.
    pub alert_id: Uuid,
    over: watch::Sender<Option<Over>>,
    tasks: JoinSet<()>,
}

/// The end of an outage.
#[derive(Debug, Clone, Copy)]
struct Over {
    at: DateTime<Utc>,
    lasted: Duration,
}

impl Sender {
    /// Tells `whom` that the database has been gone since `since`, as its outage `number`.
    pub fn begin(&self, whom: &[Waiting], number: i64, since: DateTime<Utc>) -> Telling {
        let alert_id = identity(&[&self.cell, "postgresql", &number.to_string()]);
        let (over, ended) = watch::channel(None);
        let mut tasks = JoinSet::new();
        for Waiting { channel, jobs } in whom {
            let page = Page {
                sender: self.clone(),
                channel: channel.clone(),
                jobs: jobs.clone(),
                alert_id,
                dedup_key: format!("escapement-{}-postgresql-{number}", self.cell),
                since,
            };
            tasks.spawn(page.tell(ended.clone()));
        }
        Telling { number, alert_id, over, tasks }
    }
}

impl Telling {
    /// Tells that it is over, in the background; the tasks are the caller's to keep until they have.
    pub fn end(self, lasted: Duration) -> JoinSet<()> {
        self.over.send_replace(Some(Over { at: Utc::now(), lasted }));
        self.tasks
    }
}

/// What one channel is told of one outage.
struct Page {
    sender: Sender,
    channel: Channel,
    jobs: Many,
    alert_id: Uuid,
    dedup_key: String,
    since: DateTime<Utc>,
}

impl Page {
    async fn tell(self, mut ended: watch::Receiver<Option<Over>>) {
        let runbooks = &self.sender.runbooks;
        let gone = words::database_gone(self.outage(Utc::now()), &self.jobs, runbooks);
        let mut end = ended.clone();
        // A try in hand ends first: who has heard of the outage is owed its end.
        let heard = self.send(&gone, async { drop(end.wait_for(Option::is_some).await) }).await;
        let over = match ended.wait_for(Option::is_some).await {
            Ok(over) => *over,
            Err(_) => None, // the watchdog ends
        };
        let Some(over) = over.filter(|_| heard) else { return };
        let back = words::database_back(self.outage(over.at), over.lasted.as_secs(), runbooks);
        self.send(&back, std::future::pending()).await;
    }

    fn outage(&self, at: DateTime<Utc>) -> Outage<'_> {
        Outage { alert_id: self.alert_id, dedup_key: &self.dedup_key, since: self.since, at }
    }

    /// Sends it until it is received; false when it is given up, or `stop` comes between two tries.
    async fn send(&self, message: &Message, stop: impl Future<Output = ()>) -> bool {
        tokio::pin!(stop);
        let event = if message.event == Event::Resolved { "resolved" } else { "opened" };
        let (id, body) = (identity(&[&self.dedup_key, &self.channel.id.to_string(), event]), message.body());
        let (began, mut wait) = (Instant::now(), BACKOFF);
        loop {
            let letter = Letter {
                id,
                body: &body,
                at: Utc::now(),
                target: &self.channel.target,
                secret: self.channel.secret.as_deref(),
            };
            let error = match channel::send(&self.sender.egress, letter, self.sender.timeout).await {
                Outcome::Received { .. } => {
                    tracing::info!(channel.name = self.channel.name, event, "Told without the database");
                    return true;
                }
                Outcome::Gone { error, .. } => {
                    tracing::error!(channel.name = self.channel.name, error, "A channel can't be told");
                    return false;
                }
                Outcome::Failed { error, .. } => error,
            };
            if began.elapsed() + wait > GIVE_UP {
                tracing::error!(channel.name = self.channel.name, error, "Telling a channel is given up");
                return false;
            }
            tracing::warn!(
                channel.name = self.channel.name,
                error,
                "A channel could not be told; trying again"
            );
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = &mut stop => return false,
            }
            wait = (wait * 2).min(BACKOFF_MAX);
        }
    }
}

/// The same for the same parts, whoever asks.
fn identity(parts: &[&str]) -> Uuid {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::channel::{Accepts, Target};
    use model::ids::TenantId;
    use service::egress::Policy;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    fn channel(url: String) -> Channel {
        Channel {
            id: Uuid::nil(),
            tenant_id: TenantId::DEFAULT,
            name: "oncall".to_owned(),
            target: Target::Webhook { url },
            secret: None,
            accepts: Accepts::default(),
            system: None,
            created_at: DateTime::UNIX_EPOCH,
        }
    }

    /// Reads a request to the end of its body.
    async fn read(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        let mut bytes = [0; 4_096];
        while !text.contains("}}") {
            let count = stream.read(&mut bytes).await.expect("a message");
            assert!(count > 0, "ended early: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        text
    }

    async fn receive(stream: &mut TcpStream) {
        let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.expect("it is waited for");
    }

    #[tokio::test]
    async fn who_hears_of_an_outage_while_it_ends_hears_of_its_end_too() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let policy = Policy { settings: "webhook", loopback: true, private: false, link_local: false };
        let sender = Sender {
            egress: Egress::new(policy, "test").expect("a client"),
            timeout: Duration::from_secs(60),
            cell: "main".to_owned(),
            runbooks: String::new(),
        };
        let whom = [Waiting { channel: channel(url), jobs: Many::default() }];
        let telling = sender.begin(&whom, 1, DateTime::UNIX_EPOCH);
        let (mut opened, _) = listener.accept().await.expect("a try");
        assert!(read(&mut opened).await.contains("alert.opened"));
        let mut ends = telling.end(Duration::from_secs(1));
        let told = async {
            receive(&mut opened).await;
            let (mut resolved, _) = listener.accept().await.expect("another message");
            assert!(read(&mut resolved).await.contains("alert.resolved"));
            receive(&mut resolved).await;
        };
        tokio::pin!(told);
        tokio::select! {
            biased;
            () = &mut told => {}
            _ = ends.join_next() => panic!("nobody is told of the end"),
        }
        ends.join_next().await.expect("a task").expect("no panic");
    }

    #[test]
    fn two_watchdogs_name_a_message_alike_and_each_outage_otherwise() {
        let of = |cell: &str, number: &str, channel: &str| identity(&[cell, "postgresql", number, channel]);
        assert_eq!(of("main", "1", "a"), of("main", "1", "a"));
        for other in [of("main", "2", "a"), of("main", "1", "b"), of("cell", "1", "a")] {
            assert_ne!(of("main", "1", "a"), other);
        }
        assert_ne!(identity(&["ab", "c"]), identity(&["a", "bc"]));
    }
}
