use super::*;
use crate::auth::{Authenticate, Caller, Role, guard};
use crate::v1;
use crate::v1::job_service_server::{JobService, JobServiceServer};
use axum::body::Body;
use http::Request;
use model::ids::TenantId;
use serde_json::{Value as Json, json};
use std::sync::Mutex;
use tower::ServiceExt;

/// Answers what the tests expect and remembers the metadata of the last call.
#[derive(Default)]
struct Canned {
    metadata: Mutex<Option<tonic::metadata::MetadataMap>>,
}

type Answer<T> = Result<tonic::Response<T>, Status>;

#[tonic::async_trait]
impl JobService for Arc<Canned> {
    async fn create_job(&self, request: tonic::Request<v1::CreateJobRequest>) -> Answer<v1::Job> {
        Caller::of(&request, Role::Editor)?;
        *self.metadata.lock().expect("no panic") = Some(request.metadata().clone());
        let job = request.into_inner().job.unwrap_or_default();
        let errors = crate::convert::job::read(&job).errors;
        if errors.is_empty() { Ok(tonic::Response::new(job)) } else { Err(status::invalid(errors)) }
    }

    async fn get_job(&self, request: tonic::Request<v1::GetJobRequest>) -> Answer<v1::Job> {
        Err(status::not_found("job", &request.into_inner().job))
    }

    async fn list_jobs(&self, request: tonic::Request<v1::ListJobsRequest>) -> Answer<v1::ListJobsResponse> {
        let size = request.into_inner().page_size;
        Ok(tonic::Response::new(v1::ListJobsResponse { jobs: Vec::new(), next_page_token: size.to_string() }))
    }

    async fn update_job(&self, request: tonic::Request<v1::UpdateJobRequest>) -> Answer<v1::Job> {
        let request = request.into_inner();
        let generation = request.job.unwrap_or_default().generation;
        Err(status::changed_since(&request.name, generation, generation + 1))
    }

    async fn delete_job(&self, _: tonic::Request<v1::DeleteJobRequest>) -> Answer<()> {
        Ok(tonic::Response::new(()))
    }

    async fn pause_job(&self, request: tonic::Request<v1::PauseJobRequest>) -> Answer<v1::Job> {
        let request = request.into_inner();
        Ok(tonic::Response::new(v1::Job {
            name: request.job,
            pause_reason: request.reason,
            ..v1::Job::default()
        }))
    }

    async fn patch_job(&self, _: tonic::Request<v1::PatchJobRequest>) -> Answer<v1::Job> {
        Err(Status::unimplemented("patch_job"))
    }

    async fn list_revisions(
        &self,
        _: tonic::Request<v1::ListRevisionsRequest>,
    ) -> Answer<v1::ListRevisionsResponse> {
        Err(Status::unimplemented("list_revisions"))
    }

    async fn compare_revisions(
        &self,
        _: tonic::Request<v1::CompareRevisionsRequest>,
    ) -> Answer<v1::CompareRevisionsResponse> {
        Err(Status::unimplemented("compare_revisions"))
    }

    async fn resume_job(&self, _: tonic::Request<v1::ResumeJobRequest>) -> Answer<v1::Job> {
        Err(Status::unimplemented("resume_job"))
    }

    async fn trigger_job(&self, _: tonic::Request<v1::TriggerJobRequest>) -> Answer<v1::JobRun> {
        Err(Status::unimplemented("trigger_job"))
    }

    async fn backfill_job(
        &self,
        _: tonic::Request<v1::BackfillJobRequest>,
    ) -> Answer<v1::BackfillJobResponse> {
        Err(Status::unimplemented("backfill_job"))
    }

    async fn why_job(&self, request: tonic::Request<v1::WhyJobRequest>) -> Answer<v1::WhyJobResponse> {
        let request = request.into_inner();
        Ok(tonic::Response::new(v1::WhyJobResponse {
            job_name: request.job,
            explanation: request.time,
            ..v1::WhyJobResponse::default()
        }))
    }
}

/// Knows the tokens `editor` and `viewer`.
struct Tokens;

impl Authenticate for Tokens {
    async fn authenticate(&self, secret: &str) -> Result<Caller, Status> {
        let role = secret.parse().map_err(|_| status::unauthenticated())?;
        Ok(Caller {
            tenant_id: TenantId::DEFAULT,
            token_id: uuid::Uuid::nil(),
            token_name: secret.to_owned(),
            role,
        })
    }
}

/// What the gateway reads at most.
const BODY_BYTES_MAX: usize = 10_000;

struct Answered {
    status: u16,
    headers: HeaderMap,
    json: Json,
}

/// A request with the token `editor`, and a body of JSON unless it is empty.
fn request(method: &str, path: &str, body: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("authorization", "Bearer editor");
    let request = if body.is_empty() { request } else { request.header("content-type", "application/json") };
    request.body(Body::from(body.to_owned())).expect("a request")
}

async fn ask_of(service: Arc<Canned>, request: Request<Body>) -> Answered {
    let routes = guard(Routes::new(JobServiceServer::new(service)), Arc::new(Tokens));
    let router = Gateway::new(routes, BODY_BYTES_MAX).expect("every rule can be served").router();
    let response = router.oneshot(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
    let json = serde_json::from_slice(&body).expect("JSON");
    Answered { status: parts.status.as_u16(), headers: parts.headers, json }
}

async fn ask(request: Request<Body>) -> Answered {
    ask_of(Arc::default(), request).await
}

fn fields(answered: &Answered) -> Vec<&str> {
    let errors = answered.json["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut fields: Vec<&str> = errors.iter().filter_map(|error| error["field"].as_str()).collect();
    fields.sort_unstable();
    fields
}

const JOB: &str =
    r#"{"name":"invoices","schedule":"0 9 * * *","maxRuntime":"90s","run":{"exec":{"argv":["true"]}}}"#;

#[tokio::test]
async fn a_body_becomes_a_message_and_the_answer_json() {
    let answered = ask(request("POST", "/v1/jobs", JOB)).await;
    assert_eq!(answered.status, 200, "{}", answered.json);
    assert_eq!(answered.headers["content-type"], "application/json");
    assert_eq!(answered.json["maxRuntime"], "90s");
    assert_eq!(answered.json["run"]["exec"]["argv"], json!(["true"]));
    assert_eq!(answered.json["generation"], "0");
}

#[tokio::test]
async fn tracing_and_idempotency_headers_reach_the_method() {
    let service = Arc::new(Canned::default());
    let mut create = request("POST", "/v1/jobs", JOB);
    create.headers_mut().insert("traceparent", "00-aa-bb-01".parse().expect("a header"));
    create.headers_mut().insert("idempotency-key", "once".parse().expect("a header"));
    create.headers_mut().insert("x-other", "no".parse().expect("a header"));
    assert_eq!(ask_of(service.clone(), create).await.status, 200);
    let metadata = service.metadata.lock().expect("no panic").take().expect("it was called");
    assert_eq!(metadata.get("traceparent").expect("forwarded"), "00-aa-bb-01");
    assert_eq!(metadata.get("idempotency-key").expect("forwarded"), "once");
    assert!(metadata.get("x-other").is_none());
}

#[tokio::test]
async fn every_wrong_field_is_told_as_a_problem() {
    let body = r#"{"name":"invoices","shedule":"x","misfire":{"grace":"soon"}}"#;
    let answered = ask(request("POST", "/v1/jobs", body)).await;
    assert_eq!(
        (answered.status, answered.headers["content-type"].as_bytes()),
        (400, &b"application/problem+json"[..])
    );
    assert_eq!(fields(&answered), ["misfire.grace", "shedule"]);
    assert_eq!(answered.json["type"], "urn:escapement:problem:invalid");
    assert_eq!(answered.json["status"], 400);
    assert!(answered.json["title"].is_string() && answered.json["detail"].is_string());
}

#[tokio::test]
async fn a_key_that_is_given_twice_is_wrong_wherever_it_stands() {
    let body = r#"{"name":"a","schedule":"* * * * *","run":{"exec":{"argv":["true"]},"exec":{"argv":["false"]}},
                   "labels":{"team":"a","team":"b"},"schedule":"0 9 * * *"}"#;
    let answered = ask(request("POST", "/v1/jobs", body)).await;
    assert_eq!((answered.status, &answered.json["type"]), (400, &json!("urn:escapement:problem:invalid")));
    assert_eq!(fields(&answered), ["labels.team", "run.exec", "schedule"]);
    assert_eq!(answered.json["errors"][0]["message"], "is given more than once: keep one");
}

#[tokio::test]
async fn wrong_fields_that_the_method_finds_are_told_alike() {
    let body = r#"{"name":"Invoices","priority":12,"misfire":{"grace":"-5s"},"run":{}}"#;
    let answered = ask(request("POST", "/v1/jobs", body)).await;
    assert_eq!(answered.status, 400);
    assert_eq!(fields(&answered), ["misfire.grace", "name", "priority", "run"]);
}

#[tokio::test]
async fn what_else_is_wrong_is_asked_of_who_knows_with_each_in_its_place() {
    let judge: Judge = |rpc, input, mut unread| {
        let create = v1::CreateJobRequest::decode(input).expect("an input of the method");
        let channels = create.job.unwrap_or_default().alert.unwrap_or_default().channels;
        unread.errors.push(FieldError::new(rpc, format!("{channels:?}")));
        unread.told()
    };
    let service = Arc::new(Canned::default());
    let routes = guard(Routes::new(JobServiceServer::new(service.clone())), Arc::new(Tokens));
    let gateway = Gateway::new(routes, BODY_BYTES_MAX).expect("every rule can be served").judging(judge);
    let body = r#"{"name":"a","alert":{"channels":[7,"b"]}}"#;
    let response =
        gateway.clone().router().oneshot(request("POST", "/v1/jobs", body)).await.expect("an answer");
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    let problem: Json = serde_json::from_slice(&body).expect("JSON");
    let expected = json!([
        {"field": "alert.channels[0]", "message": "7: use a text"},
        {"field": "CreateJob", "message": r#"["", "b"]"#},
    ]);
    assert_eq!(problem["errors"], expected);
    assert!(service.metadata.lock().expect("no panic").is_none(), "it was not called");
}

#[tokio::test]
async fn path_parameters_and_empty_answers() {
    let missing = ask(request("GET", "/v1/jobs/a%20b", "")).await;
    assert_eq!((missing.status, missing.json["detail"].as_str()), (404, Some("there is no job \"a b\"")));
    assert_eq!(ask(request("GET", "/v1/jobs?pageSize=7", "")).await.json["nextPageToken"], "7");
    let deleted = ask(request("DELETE", "/v1/jobs/a", "")).await;
    assert_eq!((deleted.status, deleted.json), (200, json!({})));
    let changed = ask(request("PUT", "/v1/jobs/a", r#"{"generation":"4"}"#)).await;
    assert_eq!(changed.status, 409);
    assert!(changed.json["detail"].as_str().is_some_and(|text| text.contains("generation 5, not 4")));
}

#[tokio::test]
async fn what_is_no_request_of_ours_is_refused_by_kind() {
    assert_eq!(ask(request("GET", "/v1/nothing", "")).await.status, 404);
    let method = ask(request("PATCH", "/v1/jobs", "")).await;
    assert_eq!((method.status, method.headers["allow"].as_bytes()), (405, &b"GET, POST"[..]));
    let mut text = request("POST", "/v1/jobs", JOB);
    text.headers_mut().insert("content-type", "text/yaml".parse().expect("a header"));
    assert_eq!(ask(text).await.status, 415);
    let large = format!(r#"{{"name":"{}"}}"#, "x".repeat(BODY_BYTES_MAX));
    assert_eq!(ask(request("POST", "/v1/jobs", &large)).await.status, 413);
    for wrong in ["{", "[]", "7", r#"{"name":"a"} x"#] {
        assert_eq!(ask(request("POST", "/v1/jobs", wrong)).await.status, 400, "{wrong}");
    }
    assert_eq!(ask(request("GET", "/v1/jobs", "{}")).await.status, 400);
}

#[tokio::test]
async fn nothing_is_answered_without_a_token_that_suffices() {
    for header in [None, Some("Bearer nobody"), Some("Basic editor")] {
        let mut list = request("GET", "/v1/jobs", "");
        match header {
            Some(value) => drop(list.headers_mut().insert("authorization", value.parse().expect("a header"))),
            None => drop(list.headers_mut().remove("authorization")),
        }
        let answered = ask(list).await;
        assert_eq!((answered.status, answered.headers["www-authenticate"].as_bytes()), (401, &b"Bearer"[..]));
    }
    let mut create = request("POST", "/v1/jobs", JOB);
    create.headers_mut().insert("authorization", "Bearer viewer".parse().expect("a header"));
    assert_eq!(ask(create).await.status, 403);
}

#[tokio::test]
async fn a_service_that_is_not_served_is_not_available() {
    assert_eq!(ask(request("GET", "/v1/status", "")).await.status, 501);
}

#[tokio::test]
async fn a_verb_after_a_variable_names_the_method() {
    let paused = ask(request("POST", "/v1/jobs/a.b:pause", r#"{"reason": "patching"}"#)).await;
    assert_eq!((paused.status, &paused.json["name"]), (200, &json!("a.b")));
    assert_eq!(paused.json["pauseReason"], "patching");
    let why = ask(request("GET", "/v1/jobs/a:why?time=2026-11-29T09:00:00Z", "")).await;
    assert_eq!((why.status, &why.json["explanation"]), (200, &json!("2026-11-29T09:00:00Z")));
}
