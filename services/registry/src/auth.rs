//! Who calls: a bearer token's hash, looked up in the database and remembered for at most a second, so that a revoked
//! token is refused within that time. The lookup is by an index on the hash: no secret is compared byte by byte, so
//! there is no comparison whose duration could tell something about one.
//!
//! What a role may do is said by each method, in its first line.

use model::ids::TenantId;
use rpc::auth::{Authenticate, Caller, Role};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::api_token::{self, Token};
use store::{Store, StoreError};
use tonic::Status;

/// Tokens that are remembered at most; past it, all are forgotten and looked up again.
const REMEMBERED_MAX: usize = 10_000;

/// Finds callers by their tokens.
pub struct Tokens {
    store: Store,
    remember: Duration,
    remembered: Mutex<HashMap<[u8; 32], (Instant, Caller)>>,
}

impl Tokens {
    /// Tokens of the cell, each remembered for `remember`.
    pub fn new(store: Store, remember: Duration) -> Self {
        Self { store, remember, remembered: Mutex::default() }
    }

    fn recall(&self, hash: &[u8; 32], now: Instant) -> Option<Caller> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, caller) = remembered.get(hash)?;
        (now.duration_since(*since) < self.remember).then(|| caller.clone())
    }

    /// Remembers from `asked`, the moment before the database was asked: the answer is not fresher than that.
    fn remember(&self, hash: [u8; 32], asked: Instant, caller: Caller) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(hash, (asked, caller));
    }
}

impl Authenticate for Tokens {
    async fn authenticate(&self, secret: &str) -> Result<Caller, Status> {
        let hash = api_token::hash(secret);
        let asked = Instant::now();
        if let Some(caller) = self.recall(&hash, asked) {
            return Ok(caller);
        }
        let token = api_token::find(&self.store, &hash)
            .await
            .map_err(|error: StoreError| rpc::status::unavailable("PostgreSQL", &error))?;
        let caller = token.map(caller).ok_or_else(rpc::status::unauthenticated)?;
        self.remember(hash, asked, caller.clone());
        Ok(caller)
    }
}

/// A worker's token of every tenant gets a tenant here that has no jobs; its role reaches none of our methods anyway.
fn caller(token: Token) -> Caller {
    let role = match token.role {
        api_token::Role::Admin => Role::Admin,
        api_token::Role::Editor => Role::Editor,
        api_token::Role::Viewer => Role::Viewer,
        api_token::Role::Worker => Role::Worker,
    };
    Caller { tenant_id: token.tenant.unwrap_or(TenantId(uuid::Uuid::nil())), token_name: token.name, role }
}
