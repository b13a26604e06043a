//! Tokens over the API: made once, listed without their secrets, revoked at once; and what every change leaves behind.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::ids::TenantId;
use rpc::v1;
use rpc::v1::run_service_client::RunServiceClient;
use serde_json::{Value, json};
use stack::wait::wait_for;
use std::time::{Duration, Instant};
use store::api_token::Role;
use support::{Registry, SOON, job, with, wrong_fields};
use tonic::Code;

/// A revoked token opens nothing after this.
const AT_ONCE: Duration = Duration::from_secs(1);

async fn made(registry: &Registry, body: &Value) -> Value {
    let (status, token) = registry.admin("POST", "/v1/tokens", Some(body)).await;
    assert_eq!(status, 200, "{token}");
    token
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

#[tokio::test]
async fn a_secret_is_shown_once_and_stored_nowhere() {
    let registry = Registry::start().await;
    let token = made(&registry, &json!({ "name": "ci", "role": "viewer" })).await;
    let secret = text(&token, "secret");
    assert!(secret.starts_with("esc_") && secret.starts_with(text(&token, "prefix")), "{token}");
    assert_eq!((text(&token, "role"), text(&token, "creator")), ("viewer", "admin"));
    assert_eq!(registry.call(secret, "GET", "/v1/jobs", None).await.unwrap().0, 200);
    assert_eq!(registry.call(secret, "POST", "/v1/jobs", Some(&job("a"))).await.unwrap().0, 403);

    let id = text(&token, "id");
    for path in [
        "/v1/tokens/ci".to_owned(),
        format!("/v1/tokens/{id}"),
        "/v1/tokens".to_owned(),
        "/v1/auditEvents".to_owned(),
    ] {
        let (status, answer) = registry.admin("GET", &path, None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        assert!(!answer.to_string().contains(&secret[12..]), "{path}: {answer}");
        assert!(answer.to_string().contains("ci"), "{path}: {answer}");
    }
    let stored = registry.sql("SELECT t FROM api_token t; SELECT a FROM audit_event a").await;
    assert!(!stored.contains(&secret[12..]) && !registry.log().contains(&secret[12..]));
    let used = "SELECT count(*) FROM api_token WHERE name = 'ci' AND last_used_at IS NOT NULL";
    wait_for(SOON, "the note of its use", async || (registry.sql(used).await == "1").then_some(())).await;
}

#[tokio::test]
async fn every_wrong_field_of_a_token_is_named() {
    let registry = Registry::start().await;
    let wrong = json!({ "name": "C I", "role": "root", "expireTime": "2020-01-01T00:00:00Z" });
    let (status, problem) = registry.admin("POST", "/v1/tokens", Some(&wrong)).await;
    assert_eq!(
        (status, wrong_fields(&problem)),
        (400, vec!["name".to_owned(), "role".to_owned()]),
        "{problem}"
    );
    let over = json!({ "name": "ci", "role": "viewer", "expireTime": "2020-01-01T00:00:00Z" });
    let (status, problem) = registry.admin("POST", "/v1/tokens", Some(&over)).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["expireTime".to_owned()]), "{problem}");
    assert_eq!(registry.sql("SELECT count(*) FROM api_token").await, "1");
}

#[tokio::test]
async fn a_token_expires() {
    let registry = Registry::start().await;
    let later = json!({ "name": "ci", "role": "viewer", "expireTime": "2100-01-01T00:00:00Z" });
    let token = made(&registry, &later).await;
    let secret = text(&token, "secret");
    assert_eq!(registry.call(secret, "GET", "/v1/jobs", None).await.unwrap().0, 200);
    registry.sql("UPDATE api_token SET expires_at = esc_now() WHERE name = 'ci'").await;
    let since = Instant::now();
    wait_for(SOON, "its end", async || {
        (registry.call(secret, "GET", "/v1/jobs", None).await.unwrap().0 == 401).then_some(())
    })
    .await;
    assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
}

/// One of those who make a token of the same name at once makes it.
#[tokio::test]
async fn a_name_is_one_tokens_however_many_make_it_at_once() {
    let registry = Registry::start().await;
    let body = json!({ "name": "ci", "role": "viewer" });
    let makers = (0..8).map(|_| registry.admin("POST", "/v1/tokens", Some(&body)));
    let answers = futures_join(makers).await;
    let mut statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(registry.admin("DELETE", "/v1/tokens/ci", None).await.0, 200);
    made(&registry, &body).await; // the name is free again
    let (_, listed) = registry.admin("GET", "/v1/tokens?showRevoked=true&pageSize=2", None).await;
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2, "{listed}");
    let next = text(&listed, "nextPageToken").to_owned();
    let path = format!("/v1/tokens?showRevoked=true&pageSize=2&pageToken={next}");
    let (_, rest) = registry.admin("GET", &path, None).await;
    assert_eq!(rest["tokens"].as_array().unwrap().len(), 1, "{rest}");
}

/// Polls them all at once.
async fn futures_join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(move |context| {
        for (future, answer) in &mut pending {
            if answer.is_none()
                && let std::task::Poll::Ready(found) = future.as_mut().poll(context)
            {
                *answer = Some(found);
            }
        }
        if pending.iter().all(|(_, answer)| answer.is_some()) {
            return std::task::Poll::Ready(
                pending.iter_mut().filter_map(|(_, answer)| answer.take()).collect(),
            );
        }
        std::task::Poll::Pending
    })
    .await
}

#[tokio::test]
async fn the_last_administrators_token_is_not_revoked_not_even_by_two_at_once() {
    let registry = Registry::start().await;
    let (status, problem) = registry.admin("DELETE", "/v1/tokens/admin", None).await;
    assert_eq!(status, 409, "{problem}");
    assert!(text(&problem, "detail").contains("make one first"), "{problem}");
    // One that has expired is none.
    made(&registry, &json!({ "name": "old", "role": "admin", "expireTime": "2100-01-01T00:00:00Z" })).await;
    registry.sql("UPDATE api_token SET expires_at = esc_now() WHERE name = 'old'").await;
    assert_eq!(registry.admin("DELETE", "/v1/tokens/admin", None).await.0, 409);
    made(&registry, &json!({ "name": "second", "role": "admin" })).await;
    let revokers = ["admin", "second"].map(|name| format!("/v1/tokens/{name}"));
    let answers = futures_join(revokers.iter().map(|path| registry.admin("DELETE", path, None))).await;
    let mut statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let left =
        "SELECT count(*) FROM api_token WHERE role = 'ADMIN' AND revoked_at IS NULL AND expires_at IS NULL";
    assert_eq!(registry.sql(left).await, "1");
}

#[tokio::test]
async fn operators_make_the_first_token_of_a_tenant_and_nobody_else_learns_of_tenants() {
    let registry = Registry::start().await;
    let (status, _) = registry.admin("POST", "/v1/tenants", Some(&json!({ "name": "acme" }))).await;
    assert_eq!(status, 200);
    let first = made(&registry, &json!({ "name": "root", "role": "admin", "tenant": "acme" })).await;
    let theirs = text(&first, "secret");
    let (_, listed) = registry.call(theirs, "GET", "/v1/tokens", None).await.unwrap();
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 1, "{listed}");
    for method in ["GET", "DELETE"] {
        let asked = async |tenant: &str| {
            let path = format!("/v1/tokens/admin?tenant={tenant}");
            let (status, problem) = registry.call(theirs, method, &path, None).await.unwrap();
            (status, problem.to_string())
        };
        let (there, absent) = (asked("default").await, asked("nowhere").await);
        assert_eq!((there.0, &there), (403, &absent));
    }
    let every = json!({ "name": "fleet", "role": "worker", "everyTenant": true });
    assert_eq!(registry.call(theirs, "POST", "/v1/tokens", Some(&every)).await.unwrap().0, 403);
    let fleet = made(&registry, &every).await;
    assert_eq!(fleet["everyTenant"], json!(true));
    // The last one of another tenant may go: operators can make another.
    assert_eq!(registry.admin("DELETE", "/v1/tokens/root?tenant=acme", None).await.0, 200);
    let events = registry
        .sql("SELECT t.name, a.actor, a.action, a.object FROM audit_event a JOIN tenant t ON t.id = a.tenant_id ORDER BY a.id")
        .await;
    let expected = "default|admin|tenant.create|tenant/acme\nacme|admin|tenant.create|tenant/acme\n\
                    acme|admin|token.create|token/root\ndefault|admin|token.create|token/fleet\n\
                    acme|admin|token.revoke|token/root";
    assert_eq!(events, expected);
}

#[tokio::test]
async fn a_revoked_tokens_calls_and_streams_end_within_a_second() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let instant = registry.opened(created["id"].as_str().unwrap(), 10).await;
    let token = made(&registry, &json!({ "name": "eyes", "role": "viewer" })).await;
    let secret = text(&token, "secret").to_owned();

    let mut grpc = RunServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let wanted =
        v1::WatchOutputRequest { job: "invoices".to_owned(), scheduled_for: instant.clone(), once: false };
    let mut request = tonic::Request::new(wanted);
    request.metadata_mut().insert("authorization", format!("Bearer {secret}").parse().unwrap());
    let mut stream = grpc.watch_output(request).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some(), "its state");
    let events = reqwest::Client::new()
        .get(format!("{}/v1/jobs/invoices/runs/{instant}/output", registry.rest))
        .bearer_auth(&secret)
        .send()
        .await
        .unwrap();
    assert_eq!(events.status(), 200);

    assert_eq!(registry.admin("DELETE", "/v1/tokens/eyes", None).await.0, 200);
    let revoked = Instant::now();
    let ended = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                other => return (other.map(drop), revoked.elapsed()),
            }
        }
    };
    let told = async { (events.text().await.unwrap(), revoked.elapsed()) };
    let ((end, grpc_after), (told, rest_after)) =
        tokio::time::timeout(SOON, async { tokio::join!(ended, told) }).await.expect("both end");
    assert_eq!(end.expect_err("a reason").code(), Code::Unauthenticated);
    assert!(told.contains("event: error") && told.contains("valid token"), "{told}");
    assert!(grpc_after < AT_ONCE && rest_after < AT_ONCE, "{grpc_after:?} {rest_after:?}");
    assert_eq!(registry.call(&secret, "GET", "/v1/jobs", None).await.unwrap().0, 401);
}

/// Secrets of definitions, channels and tokens are planted, used and changed; no answer, no log and no audit event has one
/// that is not the caller's own definition read back.
#[tokio::test]
async fn planted_secrets_are_in_no_list_no_log_and_no_audit_event() {
    let registry = Registry::start().await;
    let signing = format!("whsec_{}", "UExBTlRFRC1TRUNSRVQtb2YtYS13ZWJob29rLQ==");
    let channel = json!({ "name": "oncall", "webhook": { "url": "https://hooks.example/planted-path", "secret": signing } });
    let (status, created) = registry.admin("POST", "/v1/channels", Some(&channel)).await;
    assert_eq!(status, 200, "{created}");
    let secretive = |header: &str| {
        let http = json!({ "http": { "url": "http://127.0.0.1:1/", "headers": { "authorization": header }, "body": "planted-body" } });
        with(job("invoices"), json!({ "run": http }))
    };
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&secretive("planted-one"))).await.0, 200);
    assert_eq!(registry.admin("PUT", "/v1/jobs/invoices", Some(&secretive("planted-two"))).await.0, 200);
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&secretive("planted-one"))).await.0, 409);
    let exec = json!({ "exec": { "argv": ["true"], "env": { "PASSWORD": "planted-env" } } });
    assert_eq!(
        registry
            .admin("POST", "/v1/apply", Some(&json!({ "jobs": [with(job("b"), json!({ "run": exec }))] })))
            .await
            .0,
        200
    );
    let bad =
        json!({ "name": "bad", "webhook": { "url": "https://hooks.example/", "secret": "planted-bad" } });
    let (status, refused) = registry.admin("POST", "/v1/channels", Some(&bad)).await;
    assert_eq!(status, 400);
    let mut seen = vec![created.to_string(), refused.to_string()];
    for path in
        ["/v1/channels", "/v1/channels/oncall", "/v1/auditEvents", "/v1/status", "/v1/tokens", "/v1/tenants"]
    {
        let (status, answer) = registry.admin("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        seen.push(answer.to_string());
    }
    let signature = signing.strip_prefix("whsec_").unwrap();
    for text in &seen {
        assert!(!text.contains(signature) && !text.contains("planted-bad"), "{text}");
    }
    let trail = registry.sql("SELECT a FROM audit_event a").await;
    assert!(trail.contains("job.update") && trail.contains("hooks.example"), "{trail}");
    for (text, place) in [(&registry.log(), "log"), (&trail, "audit"), (&seen[4], "audit events")] {
        for planted in ["planted-", signature, &registry.admin[12..]] {
            assert!(!text.contains(planted), "{planted} in the {place}: {text}");
        }
    }
}

/// A header that is marked secret goes in and never comes out, whichever way a definition is read or changed.
#[tokio::test]
async fn the_value_of_a_secret_header_is_in_no_answer_and_is_kept_for_its_host_only() {
    let registry = Registry::start().await;
    let calling = |url: &str, value: &str| {
        let headers = json!({ "X-Api": value, "x-team": "billing" });
        let http = json!({ "url": url, "headers": headers, "secretHeaders": ["x-api"] });
        with(job("invoices"), json!({ "run": { "http": http } }))
    };
    let (here, elsewhere) = ("https://api.example/a", "https://other.example/a");
    let mut answers = Vec::new();
    let mut say = async |method: &str, path: &str, body: Option<Value>| {
        let (status, answer) = registry.admin(method, path, body.as_ref()).await;
        answers.push(format!("{method} {path}: {answer}"));
        (status, answer)
    };
    assert_eq!(say("POST", "/v1/jobs", Some(calling(here, ""))).await.0, 400, "there is no value to keep");
    let (status, created) = say("POST", "/v1/jobs", Some(calling(here, "planted-secret"))).await;
    assert_eq!(
        (status, &created["run"]["http"]["headers"]),
        (200, &json!({ "X-Api": "", "x-team": "billing" }))
    );
    let set = |value: &str| Some(json!({ "jobs": [calling(here, value)] }));
    for value in ["planted-secret", ""] {
        let (status, applied) = say("POST", "/v1/apply", set(value)).await;
        assert_eq!((status, &applied["results"][0]["change"]), (200, &json!("UNCHANGED")), "{applied}");
    }
    let mut read = say("GET", "/v1/jobs/invoices", None).await.1;
    read["priority"] = json!(3);
    assert_eq!(say("PUT", "/v1/jobs/invoices", Some(read)).await.0, 200, "what was read can be written back");
    let (status, problem) = say("PUT", "/v1/jobs/invoices", Some(calling(elsewhere, ""))).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["run.http.headers".to_owned()]));
    let moved = json!({ "jobs": [calling(elsewhere, "")] });
    let (status, problem) = say("POST", "/v1/apply", Some(moved)).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["jobs[0].run.http.headers".to_owned()]));
    assert_eq!(say("PUT", "/v1/jobs/invoices", Some(calling(here, "planted-newer"))).await.0, 200);
    for path in [
        "/v1/jobs",
        "/v1/jobs/invoices",
        "/v1/jobs/invoices/revisions",
        "/v1/jobs/invoices/revisions:compare?from=1&to=3",
        "/v1/auditEvents",
    ] {
        say("GET", path, None).await;
    }
    let stored = "SELECT definition->'run'->'http'->'headers'->>'X-Api' FROM job";
    assert_eq!(registry.sql(stored).await, "planted-newer");
    for text in answers.iter().chain([&registry.log()]) {
        assert!(!text.contains("planted-"), "{text}");
    }
}

#[tokio::test]
async fn the_audit_trail_is_filtered_and_paged_and_its_tenants_own() {
    let registry = Registry::start().await;
    for name in ["a", "b", "c"] {
        assert_eq!(registry.admin("POST", "/v1/jobs", Some(&job(name))).await.0, 200);
    }
    assert_eq!(
        registry.admin("PUT", "/v1/jobs/a", Some(&with(job("a"), json!({ "priority": 3 })))).await.0,
        200
    );
    let objects = async |path: &str| {
        let (status, page) = registry.admin("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {page}");
        let events = page["events"].as_array().cloned().unwrap_or_default();
        let of = |event: &Value| format!("{} {}", text(event, "action"), text(event, "object"));
        (
            events.iter().map(of).collect::<Vec<_>>().join(", "),
            page["nextPageToken"].as_str().unwrap().to_owned(),
            events,
        )
    };
    let (all, _, events) = objects("/v1/auditEvents").await;
    assert_eq!(all, "job.update job/a, job.create job/c, job.create job/b, job.create job/a");
    assert_eq!(events[0]["detail"]["changed"]["priority"], json!({ "before": 0.0, "after": 3.0 }));
    let (first, next, _) = objects("/v1/auditEvents?action=job.create&pageSize=2").await;
    assert_eq!(first, "job.create job/c, job.create job/b");
    let (second, last, _) =
        objects(&format!("/v1/auditEvents?action=job.create&pageSize=2&pageToken={next}")).await;
    assert_eq!((second.as_str(), last.as_str()), ("job.create job/a", ""));
    let (status, problem) = registry.admin("GET", &format!("/v1/auditEvents?pageToken={next}"), None).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["pageToken".to_owned()]), "for other filters");
    assert_eq!(objects("/v1/auditEvents?object=job/b&actor=admin").await.0, "job.create job/b");
    assert_eq!(objects("/v1/auditEvents?endTime=2020-01-01T00:00:00Z").await.0, "");
    assert_eq!(
        objects("/v1/auditEvents?startTime=2020-01-01T00:00:00Z&object=job/c").await.0,
        "job.create job/c"
    );
    let other = registry.token(Some(registry.other_tenant().await), Role::Admin).await;
    let (_, theirs) = registry.call(&other, "GET", "/v1/auditEvents", None).await.unwrap();
    assert_eq!(theirs["events"], json!([]));
    let editor = registry.token(Some(TenantId::DEFAULT), Role::Editor).await;
    assert_eq!(registry.call(&editor, "GET", "/v1/auditEvents", None).await.unwrap().0, 403);
}
