//! Who calls: a bearer token's hash, looked up in the database and remembered for less than a second, so that a revoked
//! token is refused within that time, and a stream that it has opened ends. The lookup is by an index on the hash: no
//! secret is compared byte by byte, so there is no comparison whose duration could tell something about one.
//!
//! An address that sends one unknown token after another is told to wait, and costs no more look-ups meanwhile; a token
//! that was valid here a while ago is looked up all the same, so that whoever shares the address goes on.
//!
//! When a token was used is noted beside the requests, never in one. What a role may do is said by each method, in its
//! first line.

use crate::rate::Buckets;
use crate::strangers::Strangers;
use model::ids::TenantId;
use rpc::auth::{Authenticate, Caller, Role};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::api_token::{self, Token};
use store::{Store, StoreError};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use uuid::Uuid;

/// Tokens that are remembered at most; past it, all are forgotten and looked up again.
const REMEMBERED_MAX: usize = 10_000;
/// Between two looks whether the token of a stream still counts. With the time that one is remembered, 500 ms, less than
/// a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Between two notes of which tokens were used.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// Finds callers by their tokens.
pub struct Tokens {
    store: Store,
    remember: Duration,
    remembered: Mutex<HashMap<[u8; 32], (Instant, Caller)>>,
    /// None when the rate is not limited.
    buckets: Option<Mutex<Buckets>>,
    strangers: Arc<Strangers>,
    /// Since the last note.
    used: Mutex<HashSet<Uuid>>,
}

impl Tokens {
    /// Tokens of the cell, each remembered for `remember`; as many that are nobody's are looked up as `strangers` have tries.
    pub fn new(
        store: Store,
        remember: Duration,
        buckets: Option<Buckets>,
        strangers: Arc<Strangers>,
    ) -> Self {
        let buckets = buckets.map(Mutex::new);
        Self { store, remember, remembered: Mutex::default(), buckets, strangers, used: Mutex::default() }
    }

    fn recall(&self, hash: &[u8; 32], now: Instant) -> Recalled {
        match locked(&self.remembered).get(hash) {
            Some((since, caller)) if now.duration_since(*since) < self.remember => {
                Recalled::Valid(caller.clone())
            }
            Some(_) => Recalled::WasValid,
            None => Recalled::Never,
        }
    }

    /// Remembers from `asked`, the moment before the database was asked: the answer is not fresher than that.
    fn remember(&self, hash: [u8; 32], asked: Instant, caller: Caller) {
        let mut remembered = locked(&self.remembered);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(hash, (asked, caller));
    }

    /// Looks a token up, unless `stranger` has tried too many that are nobody's.
    async fn look_up(
        &self,
        hash: [u8; 32],
        asked: Instant,
        stranger: Option<IpAddr>,
    ) -> Result<Caller, Status> {
        self.strangers.take(stranger, asked)?;
        let found = api_token::find(&self.store, &hash).await;
        if !matches!(found, Ok(None)) {
            self.strangers.give_back(stranger);
        }
        let token = found.map_err(|error: StoreError| rpc::status::unavailable("PostgreSQL", &error))?;
        let Some(token) = token else {
            locked(&self.remembered).remove(&hash);
            return Err(rpc::status::unauthenticated());
        };
        let caller = caller(token);
        locked(&self.used).insert(caller.token_id);
        self.remember(hash, asked, caller.clone());
        Ok(caller)
    }

    /// Notes which tokens were used since the last note; those of a note that fails are noted when they are used next.
    async fn note_use(&self) {
        let used: Vec<Uuid> = std::mem::take(&mut *locked(&self.used)).into_iter().collect();
        if used.is_empty() {
            return;
        }
        if let Err(error) = api_token::note_use(&self.store, &used).await {
            tracing::debug!(error = service::runtime::chain(&error), "Could not note the use of tokens");
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the use of tokens until `stop`, and what is left then.
pub async fn note(tokens: Arc<Tokens>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(NOTE_EVERY)).await.is_some() {
        tokens.note_use().await;
    }
    tokens.note_use().await;
}

/// What is remembered of a token.
enum Recalled {
    /// It counts without a look.
    Valid(Caller),
    /// It counted once, and has to be looked up.
    WasValid,
    /// Nothing.
    Never,
}

impl Authenticate for Tokens {
    async fn authenticate(&self, secret: &str) -> Result<Caller, Status> {
        self.authenticate_from(None, secret).await
    }

    async fn authenticate_from(&self, peer: Option<IpAddr>, secret: &str) -> Result<Caller, Status> {
        let (hash, asked) = (api_token::hash(secret), Instant::now());
        match self.recall(&hash, asked) {
            Recalled::Valid(caller) => Ok(caller),
            Recalled::WasValid => self.look_up(hash, asked, None).await,
            Recalled::Never => self.look_up(hash, asked, peer).await,
        }
    }

    fn admit(&self, caller: &Caller) -> Result<(), Status> {
        let Some(buckets) = &self.buckets else { return Ok(()) };
        let mut buckets = locked(buckets);
        let taken = buckets.take(caller.token_id, Instant::now());
        taken.map_err(|wait| rpc::status::too_fast(buckets.per_second(), wait))
    }

    /// While the database can't be asked, a token counts as it did.
    async fn lost(self: Arc<Self>, secret: String) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.authenticate(&secret).await.is_err_and(|status| status.code() == Code::Unauthenticated) {
                return;
            }
        }
    }
}

/// A worker's token of every tenant gets a tenant here that has no jobs; its role reaches none of our methods anyway.
fn caller(token: Token) -> Caller {
    let role = role(token.role);
    let tenant_id = token.tenant.unwrap_or(TenantId(Uuid::nil()));
    Caller { tenant_id, token_id: token.id, token_name: token.name, role }
}

/// The stored role as the contract knows it.
pub const fn role(stored: api_token::Role) -> Role {
    match stored {
        api_token::Role::Admin => Role::Admin,
        api_token::Role::Editor => Role::Editor,
        api_token::Role::Viewer => Role::Viewer,
        api_token::Role::Worker => Role::Worker,
    }
}
