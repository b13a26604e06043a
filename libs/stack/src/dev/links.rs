//! The connections of a stack that a test can hold, cut and break: each dispatcher's to PostgreSQL, and each agent's to
//! each dispatcher.

use crate::StackError;
use crate::postgres::Postgres;
use crate::proxy::Proxy;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// See the module.
#[derive(Debug, Default)]
pub struct Links {
    /// By the dispatcher.
    database: BTreeMap<String, Proxy>,
    /// By the agent and the dispatcher.
    dispatchers: BTreeMap<(String, String), Proxy>,
}

impl Links {
    /// A dispatcher's way to PostgreSQL.
    ///
    /// # Errors
    /// [`StackError::UnknownService`].
    pub fn database(&self, dispatcher: &str) -> Result<&Proxy, StackError> {
        let unknown = || StackError::UnknownService { name: format!("{dispatcher}, linked") };
        self.database.get(dispatcher).ok_or_else(unknown)
    }

    /// An agent's way to a dispatcher.
    ///
    /// # Errors
    /// [`StackError::UnknownService`].
    pub fn between(&self, agent: &str, dispatcher: &str) -> Result<&Proxy, StackError> {
        let unknown = || StackError::UnknownService { name: format!("{agent} to {dispatcher}, linked") };
        self.dispatchers.get(&(agent.to_owned(), dispatcher.to_owned())).ok_or_else(unknown)
    }

    /// An agent's ways to all dispatchers.
    pub fn of_agent<'a>(&'a self, agent: &'a str) -> impl Iterator<Item = &'a Proxy> {
        self.dispatchers.iter().filter(move |((from, _), _)| from == agent).map(|(_, proxy)| proxy)
    }

    pub(super) async fn link_database(&mut self, dispatchers: usize, port: u16) -> Result<(), StackError> {
        for number in 1..=dispatchers {
            let proxy = start(SocketAddr::from(([127, 0, 0, 1], port))).await?;
            self.database.insert(format!("dispatcher-{number}"), proxy);
        }
        Ok(())
    }

    pub(super) async fn link_dispatchers(
        &mut self,
        agents: usize,
        dispatchers: impl Iterator<Item = (&str, Option<String>)>,
    ) -> Result<(), StackError> {
        for (dispatcher, address) in dispatchers {
            let address =
                address.as_deref().and_then(|address| address.strip_prefix("http://")?.parse().ok());
            let Some(address) = address else { continue };
            for number in 1..=agents {
                let names = (format!("agent-{number}"), dispatcher.to_owned());
                self.dispatchers.insert(names, start(address).await?);
            }
        }
        Ok(())
    }

    /// Where the agent finds the dispatcher, if it is linked.
    pub(super) fn dispatcher(&self, agent: &str, dispatcher: &str) -> Option<String> {
        let proxy = self.between(agent, dispatcher).ok()?;
        Some(format!("http://{}", proxy.address()))
    }

    /// Where the service finds the database.
    pub(super) fn database_url(&self, service: &str, postgres: &Postgres) -> String {
        match self.database.get(service) {
            Some(proxy) => {
                let port = format!(":{}/", proxy.address().port());
                postgres.url().replace(&format!(":{}/", postgres.port()), &port)
            }
            None => postgres.url(),
        }
    }
}

async fn start(target: SocketAddr) -> Result<Proxy, StackError> {
    let failed = |source| StackError::Listen { what: format!("the link to {target}"), source };
    Proxy::start(target).await.map_err(failed)
}
