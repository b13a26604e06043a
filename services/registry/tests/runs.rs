//! Runs of all jobs, in lists and as they happen.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, TimeDelta, Utc};
use model::ids::{JobId, RunKey, TenantId};
use model::run::{Reason, State};
use rpc::v1;
use rpc::v1::run_service_client::RunServiceClient;
use serde_json::{Value, json};
use store::Store;
use store::api_token::Role;
use store::run_end::{self, End};
use support::{Registry, SOON, job, with, wrong_fields};
use tokio::time::timeout;
use tokio_stream::StreamExt;

/// Creates a job of every minute, and returns its id.
async fn create(registry: &Registry, name: &str) -> JobId {
    let (status, created) =
        registry.admin("POST", "/v1/jobs", Some(&with(job(name), json!({ "overlap": "ALLOW" })))).await;
    assert_eq!(status, 200, "{created}");
    created["id"].as_str().unwrap().parse().unwrap()
}

/// Plans so many runs of the job, a second apart up to now; none is queued. Their instants, oldest first.
async fn plan(registry: &Registry, job: JobId, count: i64) -> Vec<DateTime<Utc>> {
    registry
        .sql(&format!(
            "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
             SELECT '{job}', '{}', at, at, 1, 7, 'SCHEDULE'
             FROM generate_series(1, {count}) n, LATERAL (SELECT date_trunc('second', esc_now()) - n * interval '1 s' AS at) a",
            TenantId::DEFAULT
        ))
        .await;
    let (_, page) = registry.admin("GET", &format!("/v1/runs?job={job}&pageSize=1000"), None).await;
    let at = |run: &Value| run["scheduledFor"].as_str().unwrap().parse().unwrap();
    let mut instants: Vec<DateTime<Utc>> = page["runs"].as_array().unwrap().iter().map(at).collect();
    instants.sort_unstable();
    assert_eq!(i64::try_from(instants.len()).unwrap(), count);
    instants
}

fn skipped(job: JobId, at: DateTime<Utc>) -> End {
    End {
        key: RunKey::new(job, at),
        attempt: None,
        state: State::Skipped,
        reason: Some(Reason::Missed),
        output: None,
    }
}

async fn end(store: &Store, ends: &[End]) {
    let mut client = store.client("end").await.unwrap();
    let tx = client.begin("end").await.unwrap();
    assert_eq!(run_end::end(&tx, ends).await.unwrap().len(), ends.len());
    tx.commit().await.unwrap();
}

fn names(page: &Value) -> Vec<&str> {
    page["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn runs_of_all_jobs_are_listed_by_each_filter_in_pages() {
    let registry = Registry::start().await;
    let (a, b) = (create(&registry, "a").await, create(&registry, "b").await);
    let (of_a, of_b) = (plan(&registry, a, 10).await, plan(&registry, b, 10).await);
    end(&registry.store, &[skipped(a, of_a[0]), skipped(b, of_b[3])]).await;
    registry.opened(&b.to_string(), 30).await;
    registry
        .sql(&format!(
            "UPDATE run SET origin = 'BACKFILL' WHERE job_id = '{a}' AND scheduled_for = '{}'",
            of_a[5]
        ))
        .await;
    let list = async |query: String| {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let (status, page) =
                registry.admin("GET", &format!("/v1/runs?pageSize=3&{query}&pageToken={token}"), None).await;
            assert_eq!(status, 200, "{page}");
            found.extend(names(&page).into_iter().map(str::to_owned));
            token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                return found;
            }
        }
    };
    let all = list(String::new()).await;
    assert_eq!(all.len(), 21);
    let instants: Vec<&str> = all.iter().map(|name| name.split_once('@').unwrap().1).collect();
    assert!(instants.is_sorted_by(|one, other| one >= other), "latest first: {all:?}");
    let text = |at: DateTime<Utc>| at.format("%Y-%m-%dT%H:%M:%SZ").to_string();
    assert_eq!(list("job=a".to_owned()).await.len(), 10);
    assert_eq!(list("states=SKIPPED".to_owned()).await.len(), 2);
    assert_eq!(list("states=SKIPPED&job=b".to_owned()).await, [format!("b@{}", text(of_b[3]))]);
    assert_eq!(list("states=RUNNING&states=RETRYING".to_owned()).await.len(), 1);
    assert_eq!(list("states=WAITING".to_owned()).await.len(), 18);
    assert_eq!(list("states=WAITING&states=SKIPPED".to_owned()).await.len(), 20);
    assert_eq!(list("origins=BACKFILL".to_owned()).await, [format!("a@{}", text(of_a[5]))]);
    // From is in it, to is not.
    let range = format!("from={}&to={}&job=a", text(of_a[2]), text(of_a[4]));
    assert_eq!(list(range).await, [format!("a@{}", text(of_a[3])), format!("a@{}", text(of_a[2]))]);
    let both = format!("from={}&to={}", text(of_a[2]), text(of_a[2] + TimeDelta::seconds(1)));
    assert_eq!(list(both).await.len(), 2);

    let wrong = "/v1/runs?origins=manual&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z";
    let (status, problem) = registry.admin("GET", wrong, None).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["origins[0]".to_owned(), "from".to_owned()]));
    let (_, page) = registry.admin("GET", "/v1/runs?pageSize=1", None).await;
    let foreign = format!("/v1/runs?states=SKIPPED&pageToken={}", page["nextPageToken"].as_str().unwrap());
    assert_eq!(wrong_fields(&registry.admin("GET", &foreign, None).await.1), ["pageToken"]);
    let other = registry.token(Some(registry.other_tenant().await), Role::Admin).await;
    for query in ["", "?states=SKIPPED", "?states=RUNNING"] {
        let (_, page) = registry.call(&other, "GET", &format!("/v1/runs{query}"), None).await.unwrap();
        assert_eq!(page["runs"], json!([]), "another tenant's runs: {query}");
    }
}

#[tokio::test]
async fn a_run_that_was_run_again_is_listed_once_by_how_it_ended_last() {
    let registry = Registry::start().await;
    let a = create(&registry, "a").await;
    let at = plan(&registry, a, 1).await[0];
    // It failed as attempt 1 and then as attempt 2; another ended well after all.
    let tenant = TenantId::DEFAULT;
    registry
        .sql(&format!(
            "INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, state, reason, final)
             SELECT '{a}', '{tenant}', '{at}', '{at}', n, 'FAILED', 'WORK_FAILED', true FROM generate_series(1, 2) n;
             UPDATE run SET state = 'FAILED', reason = 'WORK_FAILED', attempt = 2, token = 1, finished_at = '{at}'"
        ))
        .await;
    let failed = async || names(&registry.admin("GET", "/v1/runs?states=FAILED", None).await.1).len();
    assert_eq!(failed().await, 1);
    registry.sql("UPDATE run SET state = 'SUCCEEDED', reason = NULL, attempt = 3").await;
    assert_eq!(failed().await, 0);
}

/// What a browser's EventSource makes of a stream: the id of the last event, and the data of each.
struct Events {
    response: reqwest::Response,
    text: String,
    last_id: String,
}

impl Events {
    async fn open(registry: &Registry, query: &str, last_id: Option<&str>) -> Result<Self, (u16, Value)> {
        let mut request = reqwest::Client::new()
            .get(format!("{}/v1/runs:watch{query}", registry.rest))
            .bearer_auth(&registry.admin);
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        if response.status() != 200 {
            return Err((response.status().as_u16(), response.json().await.unwrap()));
        }
        Ok(Self { response, text: String::new(), last_id: last_id.unwrap_or_default().to_owned() })
    }

    /// The next event with data; none when the stream broke off. Comments move the id on.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let Some(id) = field("id: ") {
                    id.clone_into(&mut self.last_id);
                }
                if let Some(data) = field("data: ") {
                    return Some(serde_json::from_str(data).unwrap());
                }
            }
            let chunk = timeout(SOON, self.response.chunk()).await.expect("an event in time");
            self.text.push_str(std::str::from_utf8(&chunk.ok()??).unwrap());
        }
    }

    /// The first message, which has no run, has told where the watch begins.
    async fn begun(&mut self) {
        while self.last_id.is_empty() {
            let chunk = timeout(SOON, self.response.chunk()).await.expect("a beginning").unwrap().unwrap();
            let text = std::str::from_utf8(&chunk).unwrap();
            if let Some(id) = text.lines().find_map(|line| line.strip_prefix("id: ")) {
                id.clone_into(&mut self.last_id);
            }
        }
    }
}

#[tokio::test]
async fn a_watch_misses_and_doubles_nothing_while_registries_are_killed() {
    let mut registry = Registry::start().await;
    let a = create(&registry, "a").await;
    let instants = plan(&registry, a, 600).await;
    let mut events = Events::open(&registry, "", None).await.map_err(|refused| refused.1).unwrap();
    events.begun().await;
    // Two writers whose transactions overlap: of each pair the one that wrote first commits last.
    let store = registry.store.clone();
    let writing = tokio::spawn({
        let instants = instants.clone();
        async move {
            for pair in instants.chunks(2) {
                let (mut early, mut late) =
                    (store.client("early").await.unwrap(), store.client("late").await.unwrap());
                let (early, late) = (early.begin("early").await.unwrap(), late.begin("late").await.unwrap());
                assert_eq!(run_end::end(&early, &[skipped(a, pair[0])]).await.unwrap().len(), 1);
                assert_eq!(run_end::end(&late, &[skipped(a, pair[1])]).await.unwrap().len(), 1);
                late.commit().await.unwrap();
                early.commit().await.unwrap();
            }
        }
    });
    let mut seen = Vec::new();
    let mut kills = 0;
    while seen.len() < instants.len() {
        if seen.len() >= 150 * (kills + 1) && kills < 3 {
            registry.process.kill().unwrap();
            kills += 1;
        }
        match events.next().await {
            Some(event) => {
                assert_eq!(
                    (&event["run"]["state"], &event["run"]["output"]),
                    (&json!("SKIPPED"), &json!("")),
                    "{event}"
                );
                seen.push(event["run"]["name"].as_str().unwrap().to_owned());
            }
            None => {
                registry.start_again().await;
                let last_id = events.last_id.clone();
                events =
                    Events::open(&registry, "", Some(&last_id)).await.map_err(|refused| refused.1).unwrap();
            }
        }
    }
    writing.await.unwrap();
    assert_eq!(kills, 3);
    let mut expected: Vec<String> =
        instants.iter().map(|at| format!("a@{}", at.format("%Y-%m-%dT%H:%M:%SZ"))).collect();
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected, "each once");
    // And nothing after it: the next event is the one that is made now.
    let b = create(&registry, "b").await;
    let at = plan(&registry, b, 1).await[0];
    end(&registry.store, &[skipped(b, at)]).await;
    assert_eq!(events.next().await.unwrap()["run"]["jobName"], "b");
}

#[tokio::test]
async fn a_watch_over_grpc_takes_filters_and_tokens_and_names_what_is_wrong() {
    let registry = Registry::start().await;
    let (a, b) = (create(&registry, "a").await, create(&registry, "b").await);
    let (of_a, of_b) = (plan(&registry, a, 3).await, plan(&registry, b, 3).await);
    let mut client = RunServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let open = async |client: &mut RunServiceClient<_>, job: &str, states: Vec<i32>, token: &str| {
        let wanted = v1::WatchRunsRequest { job: job.to_owned(), states, resume_token: token.to_owned() };
        client.watch_runs(registry.request(wanted)).await.map(tonic::Response::into_inner)
    };
    let mut all = open(&mut client, "", vec![], "").await.unwrap();
    let begin = timeout(SOON, all.next()).await.unwrap().unwrap().unwrap();
    assert!(begin.run.is_none() && !begin.resume_token.is_empty());
    end(&registry.store, &[skipped(a, of_a[0]), skipped(b, of_b[0])]).await;
    registry.opened(&b.to_string(), 30).await; // without an event: nothing claimed it
    let mut got = Vec::new();
    for _ in 0..2 {
        got.push(timeout(SOON, all.next()).await.unwrap().unwrap().unwrap());
    }
    // After the first of two events of one transaction the second is read on from its token.
    let mut again = open(&mut client, "", vec![], &got[0].resume_token).await.unwrap();
    let second = timeout(SOON, again.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(second.run, got[1].run);
    let mut of_b_only =
        open(&mut client, "b", vec![v1::job_run::State::Skipped.into()], &begin.resume_token).await.unwrap();
    let event = timeout(SOON, of_b_only.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(event.run.unwrap().job_name, "b");

    for (job, states, token, field) in [("", vec![], "x", "resumeToken"), ("", vec![99], "", "states[0]")] {
        let refused = open(&mut client, job, states, token).await.expect_err("wrong");
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        assert_eq!(rpc::status::field_errors(&refused)[0].field, field);
    }
    let absent = open(&mut client, "nobody", vec![], "").await.expect_err("absent");
    assert_eq!(absent.code(), tonic::Code::NotFound);
    // Events after it were forgotten.
    registry.sql("UPDATE run_event_floor SET xid = '18446744073709551'").await;
    let late = open(&mut client, "", vec![], &begin.resume_token).await.expect_err("too late");
    assert!(late.message().contains("24 h"), "{late:?}");
    let (status, problem) = Events::open(&registry, "?states=GONE", None).await.err().unwrap();
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["states".to_owned()]));
}

#[tokio::test]
async fn another_tenants_runs_are_not_watched() {
    let registry = Registry::start().await;
    let a = create(&registry, "a").await;
    let instants = plan(&registry, a, 1).await;
    let other = registry.token(Some(registry.other_tenant().await), Role::Viewer).await;
    let mut client = RunServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let mut request = tonic::Request::new(v1::WatchRunsRequest::default());
    request.metadata_mut().insert("authorization", format!("Bearer {other}").parse().unwrap());
    let mut theirs = client.watch_runs(request).await.unwrap().into_inner();
    timeout(SOON, theirs.next()).await.unwrap().unwrap().unwrap();
    let mut ours =
        client.watch_runs(registry.request(v1::WatchRunsRequest::default())).await.unwrap().into_inner();
    timeout(SOON, ours.next()).await.unwrap().unwrap().unwrap();
    end(&registry.store, &[skipped(a, instants[0])]).await;
    timeout(SOON, ours.next()).await.unwrap().unwrap().unwrap();
    // Theirs looks as often as ours: two more rounds of its looks.
    assert!(timeout(std::time::Duration::from_millis(1_200), theirs.next()).await.is_err());
    let mut request = tonic::Request::new(v1::WatchRunsRequest { job: "a".to_owned(), ..Default::default() });
    request.metadata_mut().insert("authorization", format!("Bearer {other}").parse().unwrap());
    assert_eq!(
        client.watch_runs(request).await.err().map(|status| status.code()),
        Some(tonic::Code::NotFound)
    );
}

#[tokio::test]
async fn runs_further_back_than_the_tenant_sees_are_not_watched() {
    let registry = Registry::start().await;
    let a = create(&registry, "a").await;
    let planned = async |seconds| {
        let at: DateTime<Utc> = registry.plan(&a.to_string(), seconds).await.parse().unwrap();
        skipped(a, at)
    };
    let (old, older) = (planned(-100_000).await, planned(-100_001).await);
    let (new, last) = (planned(-60).await, planned(-50).await);
    let limits = json!({ "limits": { "historyDays": 1 } });
    assert_eq!(registry.admin("PUT", "/v1/tenants/default", Some(&limits)).await.0, 200);
    let mut client = RunServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let wanted = registry.request(v1::WatchRunsRequest::default());
    let mut events = client.watch_runs(wanted).await.unwrap().into_inner();
    timeout(SOON, events.next()).await.unwrap().unwrap().unwrap(); // where it begins
    end(&registry.store, std::slice::from_ref(&older)).await;
    end(&registry.store, &[old, new.clone()]).await;
    end(&registry.store, std::slice::from_ref(&last)).await;
    for expected in [new, last] {
        let event = timeout(SOON, events.next()).await.unwrap().unwrap().unwrap();
        let name = model::ids::run_name("a", expected.key.scheduled_for);
        assert_eq!(event.run.unwrap().name, name);
    }
}
