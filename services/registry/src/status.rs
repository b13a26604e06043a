//! Status: whether the clockwork of the cell turns.

use crate::failure::Failure;
use crate::registry::Registry;
use chrono::{NaiveDate, NaiveTime};
use rpc::auth::{Caller, Role};
use rpc::convert::time;
use rpc::v1;
use rpc::v1::status_service_server::StatusService;
use std::time::Duration;
use store::status::{self, Status as Found, Ticker};
use tonic::{Request, Response, Status};

/// A ticker or dispatcher that showed no life for so long counts as gone.
pub const ALIVE_WITHIN: Duration = Duration::from_secs(15);

#[tonic::async_trait]
impl StatusService for Registry {
    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::Status>, Status> {
        let tenant = Caller::of(&request, Role::Viewer)?.tenant_id;
        let found = status::read(&self.store, tenant, ALIVE_WITHIN).await.map_err(Failure::from)?;
        Ok(Response::new(message(&self.store.settings().cell, found)))
    }
}

fn message(cell: &str, found: Found) -> v1::Status {
    v1::Status {
        cell: cell.to_owned(),
        time: Some(time::timestamp(found.now)),
        ticker: Some(ticker(found.ticker)),
        lateness: Some(v1::Lateness {
            runs: found.lateness.runs,
            p50_ms: found.lateness.p50_ms,
            p99_ms: found.lateness.p99_ms,
            max_ms: found.lateness.max_ms,
        }),
        dispatchers: found.dispatchers.into_iter().map(dispatcher).collect(),
        workers: found.workers.into_iter().map(worker).collect(),
        queue: found.queues.into_iter().map(queue).collect(),
        open_alerts: found.open_alerts,
        jobs: found.jobs,
        ledger: Some(ledger(&found.ledger)),
    }
}

fn ledger(found: &status::Ledger) -> v1::LedgerStatus {
    let begin = |day: NaiveDate| time::timestamp(day.and_time(NaiveTime::MIN).and_utc());
    v1::LedgerStatus {
        bytes: found.bytes,
        days: count(found.days),
        oldest_day: found.oldest.map(begin),
        floor: Some(time::timestamp(found.floor)),
    }
}

fn ticker(newest: Option<Ticker>) -> v1::TickerStatus {
    let Some(newest) = newest else { return v1::TickerStatus::default() };
    let leader = newest.leads.then_some(v1::Leader {
        name: newest.name,
        pid: newest.pid,
        revision: newest.revision,
        since: Some(time::timestamp(newest.began_at)),
    });
    v1::TickerStatus {
        leader,
        last_cycle_time: newest.last_cycle_at.map(time::timestamp),
        planned_through: newest.planned_through.map(time::timestamp),
    }
}

fn dispatcher(found: status::Dispatcher) -> v1::DispatcherStatus {
    v1::DispatcherStatus {
        id: found.id.to_string(),
        name: found.name,
        pid: found.pid,
        renew_time: Some(time::timestamp(found.renewed_at)),
        alive: found.alive,
        workers: count(found.workers),
    }
}

fn worker(found: status::Worker) -> v1::WorkerStatus {
    v1::WorkerStatus {
        session: found.session.to_string(),
        name: found.name,
        queues: found.queues,
        slots: found.slots,
        running: count(found.running),
        dispatcher: found.dispatcher,
        connect_time: Some(time::timestamp(found.connected_at)),
    }
}

fn queue(found: status::Queue) -> v1::QueueStatus {
    v1::QueueStatus {
        queue: found.queue,
        planned: found.planned,
        waiting: found.waiting,
        running: found.running,
        retrying: found.retrying,
        held: found.held,
        held_since: found.held_from.map(time::timestamp),
    }
}

fn count(found: i64) -> i32 {
    i32::try_from(found).unwrap_or(i32::MAX)
}
