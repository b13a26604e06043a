//! Asks every dispatcher whether it can reach the database.
//!
//! Owns the connections that this takes, beside the session's own. Deliberately decides nothing: what the answers allow
//! is in `lease`.

use crate::lease::{Answer, Peer, Question};
use crate::trust::Trust;
use rpc::v1;
use rpc::v1::worker_service_client::WorkerServiceClient;
use std::collections::HashMap;
use std::time::Duration;
use tokio::task::JoinSet;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;

/// For one dispatcher, connecting included.
const LIMIT: Duration = Duration::from_secs(2);
/// Connections that are kept; more than there are dispatchers.
const CHANNELS_MAX: usize = 256;

/// Who asks, and through what.
pub(crate) struct Asker {
    authorization: MetadataValue<Ascii>,
    trust: Trust,
    channels: HashMap<String, Channel>,
}

impl Asker {
    pub(crate) fn new(authorization: MetadataValue<Ascii>, trust: Trust) -> Self {
        Self { authorization, trust, channels: HashMap::new() }
    }

    /// Asks them all at once; an answer for each, in any order.
    pub(crate) fn ask(&mut self, question: &Question) -> impl Future<Output = Vec<Answer>> + Send + 'static {
        let mut asking = JoinSet::new();
        let mut answers = Vec::new();
        for peer in &question.peers {
            match self.channel(&peer.address) {
                Some(channel) => drop(asking.spawn(ask(channel, self.authorization.clone(), peer.clone()))),
                None => answers.push(Answer::Silent),
            }
        }
        async move {
            while let Some(answer) = asking.join_next().await {
                answers.push(answer.unwrap_or(Answer::Silent));
            }
            answers
        }
    }

    fn channel(&mut self, address: &str) -> Option<Channel> {
        if let Some(channel) = self.channels.get(address) {
            return Some(channel.clone());
        }
        let endpoint = match self.trust.endpoint(address) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                tracing::warn!(dispatcher.address = address, error = %error, "A dispatcher can't be asked");
                return None;
            }
        };
        if self.channels.len() >= CHANNELS_MAX {
            self.channels.clear();
        }
        let channel = endpoint.connect_lazy();
        self.channels.insert(address.to_owned(), channel.clone());
        Some(channel)
    }
}

async fn ask(channel: Channel, authorization: MetadataValue<Ascii>, peer: Peer) -> Answer {
    let mut request = Request::new(v1::StandingRequest {});
    request.metadata_mut().insert("authorization", authorization);
    let mut client = WorkerServiceClient::new(channel);
    match tokio::time::timeout(LIMIT, client.standing(request)).await {
        Ok(Ok(standing)) => Answer::of(&peer, &standing.into_inner()),
        Ok(Err(status)) => {
            tracing::debug!(dispatcher.address = peer.address, error = %status, "A dispatcher does not tell whether it has the database");
            Answer::Silent
        }
        Err(_) => Answer::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;

    #[tokio::test]
    async fn one_that_can_not_be_asked_is_silent_and_not_left_out() {
        let peer = |address: &str| Peer { id: "d".into(), address: address.into() };
        let peers = vec![peer("no address"), peer("https://without-an-authority:7001")];
        let mut asker = Asker::new(MetadataValue::from_static("Bearer secret"), Trust::default());
        let answers = asker.ask(&Question { asked: Moment::at(0), peers }).await;
        assert_eq!(answers, [Answer::Silent, Answer::Silent]);
    }
}
