//! The matrix of docs/security.md against every method of the contract, over gRPC and REST: as every role of two tenants,
//! and without a token that counts; and that no answer tells one tenant of another.

use crate::support::{Registry, job};
use model::ids::TenantId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use store::api_token::Role;

/// The columns of the matrix in docs/security.md.
const COLUMNS: [&str; 5] = ["operator", "admin", "editor", "viewer", "worker"];
/// Served by dispatchers; a test of whole cells compares its rows.
const ELSEWHERE: &str = "WorkerService/";

/// Which columns may call each method, as docs/security.md says.
fn matrix() -> BTreeMap<String, [bool; 5]> {
    let page = include_str!("../../../../docs/security.md");
    let (_, table) = page.split_once("## The matrix").expect("a matrix");
    let mut rows = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if cells[0] == "method" {
            assert_eq!(cells[1..], COLUMNS);
            continue;
        }
        let may = |cell: &str| match cell {
            "yes" => true,
            "–" => false,
            _ => panic!("{line}: use yes or –"),
        };
        let allowed: Vec<bool> = cells[1..].iter().map(|cell| may(cell)).collect();
        let allowed = allowed.try_into().unwrap_or_else(|_| panic!("{line}: use five cells"));
        assert_eq!(rows.insert(cells[0].to_owned(), allowed), None, "{line}: twice");
    }
    rows
}

/// Every method of the contract, as `JobService/GetJob`.
fn contract() -> BTreeSet<String> {
    let ours = rpc::descriptors().services().filter(|service| service.package_name() == "escapement.v1");
    let methods = ours.flat_map(|service| {
        let methods: Vec<_> =
            service.methods().map(|method| format!("{}/{}", service.name(), method.name())).collect();
        methods
    });
    methods.collect()
}

/// The column of a token.
fn column(tenant: Option<TenantId>, role: Role) -> usize {
    match role {
        Role::Admin if tenant == Some(TenantId::DEFAULT) => 0,
        Role::Admin => 1,
        Role::Editor => 2,
        Role::Viewer => 3,
        Role::Worker => 4,
    }
}

/// Calls a method with an empty message, and returns the code in the head of the answer; none of one that has begun well.
async fn code(http: &reqwest::Client, registry: &Registry, method: &str, token: &str) -> Option<u32> {
    let answer = http
        .post(format!("{}/escapement.v1.{method}", registry.grpc))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .bearer_auth(token)
        .body(vec![0; 5])
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200, "{method}");
    answer.headers().get("grpc-status").map(|code| code.to_str().unwrap().parse().unwrap())
}

/// Calls a path of REST, and returns the status.
async fn status(http: &reqwest::Client, registry: &Registry, method: &str, path: &str, token: &str) -> u16 {
    let request = http.request(method.parse().unwrap(), format!("{}{path}", registry.rest));
    let request = match method {
        "GET" | "DELETE" => request,
        _ => request.json(&json!({})),
    };
    request.bearer_auth(token).send().await.unwrap().status().as_u16()
}

/// Every path of REST with its method: as the document has them, and those that stream.
async fn paths(registry: &Registry) -> Vec<(String, String, String)> {
    let (_, document) = registry.call("", "GET", "/openapi.json", None).await.unwrap();
    let mut paths = vec![
        (
            "RunService/WatchOutput".to_owned(),
            "GET".to_owned(),
            "/v1/jobs/{job}/runs/{scheduled_for}/output".to_owned(),
        ),
        ("RunService/WatchRuns".to_owned(), "GET".to_owned(), "/v1/runs:watch".to_owned()),
    ];
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let service = operation["tags"][0].as_str().unwrap();
            let name = format!("{service}Service/{}", operation["operationId"].as_str().unwrap());
            paths.push((name, method.to_uppercase(), path.clone()));
        }
    }
    paths
}

/// A path with its variables filled in.
fn filled(path: &str, mut value: impl FnMut(&str) -> String) -> String {
    let mut parts = path.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (variable, rest) = part.split_once('}').unwrap();
        filled.push_str(&value(variable));
        filled.push_str(rest);
    }
    filled
}

#[test]
fn the_matrix_has_every_method_of_the_contract_and_no_other() {
    let rows: BTreeSet<String> = matrix().into_keys().collect();
    let methods = contract();
    let missing: Vec<_> = methods.difference(&rows).collect();
    assert!(missing.is_empty(), "say in the matrix of docs/security.md who may call {missing:?}");
    let gone: Vec<_> = rows.difference(&methods).collect();
    assert!(gone.is_empty(), "the matrix of docs/security.md names what is no method: {gone:?}");
}

#[tokio::test]
async fn every_method_answers_exactly_the_roles_of_the_matrix() {
    let registry = Registry::start().await;
    let http = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let rest = reqwest::Client::new();
    let other = registry.other_tenant().await;
    let mut bearers = vec![(column(None, Role::Worker), registry.token(None, Role::Worker).await)];
    for tenant in [TenantId::DEFAULT, other] {
        for role in [Role::Admin, Role::Editor, Role::Viewer, Role::Worker] {
            bearers.push((column(Some(tenant), role), registry.token(Some(tenant), role).await));
        }
    }
    let matrix = matrix();
    let served = matrix.iter().filter(|(method, _)| !method.starts_with(ELSEWHERE));
    for (method, allowed) in served {
        for (column, token) in &bearers {
            let code = code(&http, &registry, method, token).await;
            assert_eq!(code != Some(7), allowed[*column], "{method} as {}: {code:?}", COLUMNS[*column]);
            assert_ne!(code, Some(16), "{method} as {}", COLUMNS[*column]);
        }
    }
    let mut seen = BTreeSet::new();
    for (method, verb, path) in paths(&registry).await {
        let allowed = matrix.get(&method).unwrap_or_else(|| panic!("{method} is not in the matrix"));
        let path = filled(&path, |variable| match variable {
            "scheduled_for" => "2026-11-29T09:00:00Z".to_owned(),
            _ => "nothing".to_owned(),
        });
        for (column, token) in &bearers {
            let status = status(&rest, &registry, &verb, &path, token).await;
            assert_eq!(status != 403, allowed[*column], "{verb} {path} as {}: {status}", COLUMNS[*column]);
            assert_ne!(status, 401, "{verb} {path} as {}", COLUMNS[*column]);
        }
        seen.insert(method);
    }
    let unseen: Vec<_> =
        matrix.keys().filter(|method| !method.starts_with(ELSEWHERE) && !seen.contains(*method)).collect();
    assert!(unseen.is_empty(), "REST has no path for {unseen:?}");
}

#[tokio::test]
async fn every_method_refuses_tokens_that_are_missing_unknown_expired_or_revoked() {
    let registry = Registry::start().await;
    let http = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let rest = reqwest::Client::new();
    let (expired, revoked) = (
        registry.token(Some(TenantId::DEFAULT), Role::Editor).await,
        registry.token(Some(TenantId::DEFAULT), Role::Viewer).await,
    );
    registry
        .sql("UPDATE api_token SET expires_at = esc_now() WHERE role = 'EDITOR'; UPDATE api_token SET revoked_at = esc_now() WHERE role = 'VIEWER'")
        .await;
    let unknown = "esc_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for token in ["", unknown, &expired, &revoked] {
        for method in contract().iter().filter(|method| !method.starts_with(ELSEWHERE)) {
            assert_eq!(code(&http, &registry, method, token).await, Some(16), "{method}");
        }
        for (_, verb, path) in paths(&registry).await {
            let path = filled(&path, |_| "nothing".to_owned());
            assert_eq!(status(&rest, &registry, &verb, &path, token).await, 401, "{verb} {path}");
        }
    }
}

/// What the first tenant has, by the variable of the path that names it, and a name of the same kind that nobody has.
async fn things(registry: &Registry) -> BTreeMap<&'static str, [String; 2]> {
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap().to_owned();
    let instant = registry.opened(&id, 20).await;
    for (path, body) in [
        ("/v1/channels", json!({ "name": "oncall", "webhook": { "url": "http://127.0.0.1:1/" } })),
        ("/v1/calendars", json!({ "name": "holidays", "dates": ["2026-12-25"] })),
        ("/v1/check-ins", json!({ "name": "backup", "period": "3600s" })),
        ("/v1/tenants", json!({ "name": "acme-corp" })),
        ("/v1/tokens", json!({ "name": "eyes-of-ci", "role": "viewer" })),
    ] {
        let (status, answer) = registry.admin("POST", path, Some(&body)).await;
        assert_eq!(status, 200, "{path}: {answer}");
    }
    let alert = uuid::Uuid::new_v4();
    registry
        .sql(&format!(
            "INSERT INTO alert (id, tenant_id, job_id, opened_at, kind, cause)
                 VALUES ('{alert}', '{}', '{id}', esc_now(), 'NO_SUCCESS', 'FAILED')",
            TenantId::DEFAULT
        ))
        .await;
    let named = |there: &str, absent: &str| [there.to_owned(), absent.to_owned()];
    BTreeMap::from([
        ("job", named("invoices", "nothings")),
        ("name", named("invoices", "nothings")),
        ("check_in", named("backup", "absent")),
        ("channel", named("oncall", "nobody")),
        ("calendar", named("holidays", "workdays")),
        ("tenant", named("acme-corp", "gone-corp")),
        ("token", named("eyes-of-ci", "gone-token")),
        ("alert", [alert.to_string(), uuid::Uuid::new_v4().to_string()]),
        ("scheduled_for", [instant.clone(), instant]),
    ])
}

/// Words of a request that make it as far as to the look-up.
fn words(method: &str) -> (&'static str, Value) {
    let instant = "2026-11-29T09:00:00Z";
    match method.split_once('/').map_or(method, |(_, name)| name) {
        "WhyJob" => ("?time=2026-11-29T09:00:00Z", Value::Null),
        "CompareRevisions" => ("?from=1&to=1", Value::Null),
        "UpdateJob" => ("", job("invoices")),
        "PatchJob" => ("?updateMask=priority", json!({ "priority": 1 })),
        "BackfillJob" => ("", json!({ "from": "2026-11-01T00:00:00Z", "to": instant })),
        "UpdateCheckIn" => ("", json!({ "period": "60s" })),
        "SilenceAlert" => ("", json!({ "duration": "60s" })),
        _ => ("", json!({})),
    }
}

#[tokio::test]
async fn no_answer_reveals_whether_another_tenant_has_what_is_asked_for() {
    let registry = Registry::start().await;
    let things = things(&registry).await;
    let other = registry.token(Some(registry.other_tenant().await), Role::Admin).await;
    let mut absent = 0;
    for (method, verb, path) in paths(&registry).await.into_iter().filter(|(_, _, path)| path.contains('{')) {
        let (query, body) = words(&method);
        let ask = async |which: usize| {
            let mut names = Vec::new();
            let path = filled(&path, |variable| {
                let kind = match (variable, method.as_str()) {
                    ("name", "CheckInService/UpdateCheckIn") => "check_in",
                    ("name", "TenantService/UpdateTenant") => "tenant",
                    _ => variable,
                };
                let thing = things.get(kind);
                let thing = thing.unwrap_or_else(|| panic!("{method}: say what {{{variable}}} may be"));
                names.push(thing[which].clone());
                thing[which].clone()
            });
            let body = Some(&body).filter(|_| !matches!(verb.as_str(), "GET" | "DELETE"));
            let (status, answer) =
                registry.call(&other, &verb, &format!("{path}{query}"), body).await.unwrap();
            let text = names.iter().fold(answer.to_string(), |text, name| text.replace(name.as_str(), "?"));
            (status, text)
        };
        let (theirs, none) = (ask(0).await, ask(1).await);
        assert_eq!(theirs, none, "{verb} {path}");
        assert!(matches!(theirs.0, 403 | 404), "{verb} {path}: {theirs:?}");
        absent += usize::from(theirs.0 == 404);
    }
    assert!(absent >= 20, "{absent} paths were asked for what another tenant has");
}

#[tokio::test]
async fn neither_filters_nor_page_tokens_nor_idempotency_keys_reach_into_another_tenant() {
    let registry = Registry::start().await;
    let other = registry.token(Some(registry.other_tenant().await), Role::Admin).await;
    for name in ["a", "b", "c", "invoices"] {
        assert_eq!(registry.admin("POST", "/v1/jobs", Some(&job(name))).await.0, 200);
    }
    assert_eq!(registry.call(&other, "POST", "/v1/jobs", Some(&job("c"))).await.unwrap().0, 200);
    let (_, page) = registry.admin("GET", "/v1/jobs?pageSize=1", None).await;
    let next = page["nextPageToken"].as_str().unwrap();
    let asked = async |path: &str| registry.call(&other, "GET", path, None).await.unwrap();
    let (_, theirs) = asked(&format!("/v1/jobs?pageSize=10&pageToken={next}")).await;
    let ids: Vec<_> = theirs["jobs"].as_array().unwrap().iter().map(|job| job["id"].clone()).collect();
    let (_, own) = asked("/v1/jobs/c").await;
    assert_eq!(ids, [own["id"].clone()]);
    // A filter that names another tenant's job, by name or id, answers as one that names nobody's.
    let (_, foreign) = registry.admin("GET", "/v1/jobs/invoices", None).await;
    let foreign = foreign["id"].as_str().unwrap();
    let nobody = uuid::Uuid::new_v4().to_string();
    for (there, absent) in [("invoices", "nothings"), (foreign, nobody.as_str())] {
        let (theirs, none) =
            (asked(&format!("/v1/runs?job={there}")).await, asked(&format!("/v1/runs?job={absent}")).await);
        assert_eq!(
            (theirs.0, theirs.1.to_string().replace(there, "?")),
            (none.0, none.1.to_string().replace(absent, "?"))
        );
    }
    // The same key for the same job's name is another call.
    let (_, first) = registry.keyed("/v1/jobs/c:trigger", &json!({}), "key").await;
    let headers = [("idempotency-key", "key")];
    let (status, second) =
        registry.call_with(&other, "POST", "/v1/jobs/c:trigger", Some(&json!({})), &headers).await.unwrap();
    assert_eq!(status, 200, "{second}");
    assert_ne!(first["scheduledFor"], second["scheduledFor"]);
    let runs = "SELECT count(DISTINCT tenant_id) FROM run WHERE origin = 'MANUAL'";
    assert_eq!(registry.sql(runs).await, "2");
}
