//! Registering jobs: over REST and gRPC, whole or not at all, and refused with every wrong field named.

use harness::{Api, Cell, job, noop};
use rpc::v1::job_service_client::JobServiceClient;
use serde_json::{Value, json};

async fn cell() -> Cell {
    Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (0, 0, 0, 0);
        options
    })
    .await
}

#[tokio::test]
async fn a_job_is_created_read_listed_and_deleted_over_rest_and_grpc() {
    let cell = cell().await;
    let created = cell.api.create(complete_job()).await;
    assert_eq!(created["name"], "invoices");
    assert_eq!(created["generation"], "1");
    assert_eq!(
        created["misfire"],
        json!({
            "policy": "ONCE", "grace": "60s", "catchUpLimit": 1000, "catchUpWindow": "604800s",
            "catchUpPerSecond": 10
        })
    );
    assert_eq!(created["run"], complete_job()["run"]);
    for path in
        ["/v1/jobs/invoices".to_owned(), format!("/v1/jobs/{}", created["id"].as_str().expect("an id"))]
    {
        assert_eq!(cell.api.get(&path).await.expect("it is there")["id"], created["id"], "{path}");
    }

    let endpoints = cell.stack.endpoints();
    let mut grpc =
        JobServiceClient::connect(endpoints.registry.grpc).await.expect("the gRPC address answers");
    let token = std::fs::read_to_string(&endpoints.admin_token_file).expect("the administrator's token");
    let bearer = format!("Bearer {}", token.trim()).parse().expect("ASCII");
    let mut request = tonic::Request::new(rpc::v1::CreateJobRequest {
        job: Some(rpc::v1::Job {
            name: "over-grpc".to_owned(),
            schedule: "*/5 * * * *".to_owned(),
            run: Some(rpc::v1::Run {
                kind: Some(rpc::v1::run::Kind::Exec(rpc::v1::Exec {
                    argv: vec!["true".to_owned()],
                    ..Default::default()
                })),
            }),
            ..Default::default()
        }),
    });
    request.metadata_mut().insert("authorization", bearer);
    let over_grpc = grpc.create_job(request).await.expect("stored").into_inner();
    assert_eq!((over_grpc.generation, over_grpc.timezone.as_str()), (1, "UTC"));

    assert_eq!(names(&cell.api).await, ["invoices", "over-grpc"]);
    cell.api.delete("/v1/jobs/invoices").await.expect("deleted");
    assert_eq!(cell.api.get("/v1/jobs/invoices").await.expect_err("gone").status, 404);
    assert_eq!(names(&cell.api).await, ["over-grpc"]);
}

#[tokio::test]
async fn a_wrong_job_is_refused_with_every_wrong_field_and_nothing_is_stored() {
    let cell = cell().await;
    for (change, field, says) in [
        (json!({"schedule": "60 * * * *"}), "schedule", "minute"),
        (json!({"schedule": "* * * *"}), "schedule", "5"),
        (json!({"schedule": "0 0 30 2 *"}), "schedule", "ever comes"),
        (json!({"timezone": "Europe/Berlinn"}), "timezone", "Berlin"),
        (json!({"name": "Month End"}), "name", "a-z"),
        (json!({"misfire": {"catchUpPerSecond": 100_000}}), "misfire.catchUpPerSecond", "1000"),
        (json!({"maxRuntime": "0s"}), "maxRuntime", "at least"),
        (json!({"misfire": {"grace": "1s"}}), "misfire.grace", "10"),
        (json!({"retry": {"maxAttempts": 1000}}), "retry.maxAttempts", "100"),
        (json!({"run": {"exec": {}}}), "run.exec.argv", "program"),
        (json!({"run": {"http": {"url": "ftp://x"}}}), "run.http.url", "http"),
        (json!({"alert": {"channels": ["nobody"]}}), "alert.channels", "nobody"),
    ] {
        let refused = cell.api.post("/v1/jobs", changed(&change)).await.expect_err("wrong");
        assert_eq!(refused.status, 400, "{change}: {refused:?}");
        let errors = refused.problem["errors"].as_array().cloned().unwrap_or_default();
        let named =
            errors.iter().find(|error| error["field"].as_str().is_some_and(|name| name.starts_with(field)));
        let message = named.and_then(|error| error["message"].as_str()).unwrap_or_default();
        assert!(message.to_lowercase().contains(&says.to_lowercase()), "{change}: {}", refused.problem);
    }
    let several = changed(&json!({"schedule": "x", "timezone": "Mars/Olympus", "name": "-"}));
    let refused = cell.api.post("/v1/jobs", several).await.expect_err("wrong");
    let fields: Vec<_> =
        refused.problem["errors"].as_array().into_iter().flatten().map(|e| e["field"].clone()).collect();
    for field in ["schedule", "timezone", "name"] {
        assert!(fields.contains(&json!(field)), "{field} in {fields:?}");
    }
    for broken in
        [json!({"skedule": "* * * * *"}), json!({"maxRuntime": "soon"}), json!({"overlap": "MAYBE"})]
    {
        let refused = cell.api.post("/v1/jobs", changed(&broken)).await.expect_err("not the API's JSON");
        assert_eq!(refused.status, 400, "{broken}: {refused:?}");
    }
    assert_eq!(names(&cell.api).await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_set_is_applied_whole_or_not_at_all_and_twice_changes_nothing() {
    let cell = cell().await;
    let good = json!({"jobs": [job("a", "* * * * *", noop()), job("b", "* * * * *", noop())],
                      "channels": [{"name": "oncall", "webhook": {"url": "http://alerts.example/hook"}}]});
    let changes = |answer: &Value| -> Vec<String> {
        let results = answer["results"].as_array().cloned().unwrap_or_default();
        results
            .iter()
            .map(|result| {
                format!(
                    "{} {}",
                    result["name"].as_str().unwrap_or("?"),
                    result["change"].as_str().unwrap_or("?")
                )
            })
            .collect()
    };
    let first = cell.api.post("/v1/apply", good.clone()).await.expect("applied");
    assert_eq!(changes(&first), ["oncall CREATED", "a CREATED", "b CREATED"]);
    let again = cell.api.post("/v1/apply", good.clone()).await.expect("applied");
    assert_eq!(changes(&again), ["oncall UNCHANGED", "a UNCHANGED", "b UNCHANGED"]);
    assert_eq!(cell.api.get("/v1/jobs/a").await.expect("there")["generation"], "1");

    let half = json!({"jobs": [job("c", "* * * * *", noop()), job("d", "61 * * * *", noop())]});
    let refused = cell.api.post("/v1/apply", half).await.expect_err("one is wrong");
    assert_eq!(refused.status, 400);
    assert_eq!(refused.problem["errors"][0]["field"], "jobs[1].schedule");
    assert_eq!(names(&cell.api).await, ["a", "b"]);
}

#[tokio::test]
async fn nobody_gets_in_without_a_token() {
    let cell = cell().await;
    let stranger = Api::new(&cell.stack.endpoints().registry.rest, "esc_wrong");
    assert_eq!(stranger.get("/v1/jobs").await.expect_err("a stranger").status, 401);
    let worker = std::fs::read_to_string(cell.folder().join("worker-token")).expect("the worker's token");
    let worker = Api::new(&cell.stack.endpoints().registry.rest, worker.trim());
    let refused = worker.post("/v1/jobs", job("a", "* * * * *", noop())).await.expect_err("a worker");
    assert_eq!(refused.status, 403);
}

fn complete_job() -> Value {
    json!({
        "name": "invoices", "schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin",
        "dstGap": "RUN_AFTER", "dstFold": "FIRST",
        "misfire": {"policy": "ONCE", "grace": "60s", "catchUpLimit": 1000, "catchUpWindow": "604800s"},
        "overlap": "FORBID", "maxRuntime": "1800s",
        "retry": {"maxAttempts": 3, "backoff": "10s", "backoffMax": "600s", "maxLost": 3},
        "jitter": "0s", "queue": "default", "priority": 0, "labels": {"team": "billing"},
        "alert": {"successWithin": "2700s", "channels": []},
        "run": {"http": {"method": "POST", "url": "http://127.0.0.1:8080/invoices", "headers": {}, "body": "{}", "timeout": "30s", "expectedStatus": [], "secretHeaders": []}},
    })
}

fn changed(change: &Value) -> Value {
    let mut job = complete_job();
    for (key, value) in change.as_object().into_iter().flatten() {
        job[key] = value.clone();
    }
    job
}

async fn names(api: &Api) -> Vec<String> {
    let list = api.get("/v1/jobs").await.expect("a list");
    let jobs = list["jobs"].as_array().cloned().unwrap_or_default();
    jobs.iter().filter_map(|job| job["name"].as_str().map(str::to_owned)).collect()
}
