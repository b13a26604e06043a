//! Where check-ins report: `POST /v1/checkins/{token}`, and `/start` and `/fail` behind it.
//!
//! Whoever has the token may report, and nothing else; it is part of the address, because `curl` in a crontab is all that
//! there is. So the answer to an unknown one says no more than that, and no token is logged. An address that sends one unknown
//! token after another has to wait, as for bearer tokens; a token that has reported here before is never kept waiting for
//! others. Invariant: no byte of a body is read before its token is known.

use crate::strangers::Strangers;
use axum::Router;
use axum::body::BodyDataStream;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use model::check_in::Report;
use rpc::transcode::problem;
use service::runtime::chain;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::check_in::{self, MESSAGE_BYTES_MAX, Noted, REPORTS_PER_MINUTE_MAX};
use store::{Store, StoreError, api_token};
use tokio_stream::StreamExt;
use tonic::Status;

/// Of a body: its beginning is kept, and the rest is read so far, for some clients read no answer while they send. One that
/// is too long is no reason to lose the report.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Tokens that are remembered at most, in 32 bytes each; past it, all are forgotten.
const REMEMBERED_MAX: usize = 100_000;
/// After a report that was one too many: as far apart as [`REPORTS_PER_MINUTE_MAX`] are.
const TOO_MANY_WAIT: Duration = Duration::from_secs(1);

/// What the paths of reports need.
struct Reports {
    store: Store,
    strangers: Arc<Strangers>,
    /// The hashes of tokens that were taken here.
    taken: Mutex<HashSet<[u8; 32]>>,
}

/// The paths of reports; unknown tokens are looked up as long as `strangers` have tries.
pub fn router(store: Store, strangers: Arc<Strangers>) -> Router {
    let success = |reports, token, request| report(reports, token, Report::Success, request);
    let start = |reports, token, request| report(reports, token, Report::Start, request);
    let fail = |reports, token, request| report(reports, token, Report::Fail, request);
    Router::new()
        .route("/v1/checkins/{token}", post(success))
        .route("/v1/checkins/{token}/start", post(start))
        .route("/v1/checkins/{token}/fail", post(fail))
        .with_state(Arc::new(Reports { store, strangers, taken: Mutex::default() }))
}

async fn report(
    State(reports): State<Arc<Reports>>,
    token: Result<Path<String>, PathRejection>,
    what: Report,
    request: Request,
) -> Response {
    // What is no text was never made a token of either.
    let secret = token.ok().map(|Path(token)| token).filter(|token| api_token::is_secret(token));
    let noted = match secret {
        Some(secret) => reports.note(&secret, what, request).await,
        None => Err(unknown()),
    };
    match noted {
        Ok(name) => {
            tracing::debug!(check_in.name = name, check_in.reported = %what, "A check-in reported");
            (StatusCode::OK, "noted\n").into_response()
        }
        Err(status) => problem(&status),
    }
}

impl Reports {
    /// Notes a report; the name of its check-in.
    async fn note(&self, secret: &str, what: Report, request: Request) -> Result<String, Status> {
        let hash = api_token::hash(secret);
        self.admit(rpc::auth::peer(request.extensions()), hash).await?;
        let mut body = request.into_body().into_data_stream();
        let message = beginning(&mut body).await?;
        let message = String::from_utf8_lossy(&message);
        let noted = check_in::report(&self.store, secret, what, &message).await;
        let name = match noted.map_err(|error| failed(&error))? {
            Noted::Yes(name) => name,
            Noted::TooMany => {
                let often =
                    format!("this check-in has reported {REPORTS_PER_MINUTE_MAX} times in the last minute");
                return Err(rpc::status::try_later(&often, TOO_MANY_WAIT));
            }
            Noted::Unknown => {
                self.taken().remove(&hash);
                return Err(unknown());
            }
        };
        drain(body).await;
        Ok(name)
    }

    /// Lets a token in that was taken here before, or that some check-in has.
    async fn admit(&self, peer: Option<IpAddr>, hash: [u8; 32]) -> Result<(), Status> {
        if self.taken().contains(&hash) {
            return Ok(());
        }
        self.strangers.take(peer, Instant::now())?;
        let known = check_in::has_token(&self.store, &hash).await;
        if !matches!(known, Ok(false)) {
            self.strangers.give_back(peer);
        }
        if !known.map_err(|error| failed(&error))? {
            return Err(unknown());
        }
        let mut taken = self.taken();
        if taken.len() >= REMEMBERED_MAX {
            taken.clear();
        }
        taken.insert(hash);
        Ok(())
    }

    fn taken(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is kept of a body, and the end of the piece in which that ends.
///
/// # Errors
/// INVALID_ARGUMENT when the body breaks off.
async fn beginning(body: &mut BodyDataStream) -> Result<Vec<u8>, Status> {
    let mut message = Vec::new();
    while message.len() < MESSAGE_BYTES_MAX
        && let Some(piece) = body.next().await
    {
        message.extend_from_slice(&piece.map_err(|_| Status::invalid_argument("the body broke off"))?);
    }
    Ok(message)
}

/// Reads what is not kept. Whatever becomes of it, the report is noted.
async fn drain(mut body: BodyDataStream) {
    let mut read = 0;
    while read < BODY_BYTES_MAX
        && let Some(Ok(piece)) = body.next().await
    {
        read += piece.len();
    }
}

fn failed(error: &StoreError) -> Status {
    tracing::warn!(error = chain(error), "A report can't be noted");
    Status::unavailable("the report could not be noted: repeat it in a few seconds")
}

fn unknown() -> Status {
    Status::not_found("no check-in has this token: it may be deleted")
}
