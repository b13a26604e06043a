//! REST over the same methods as gRPC: JSON in, the method called in this process, JSON out.
//!
//! Owns how a request's path, parameters and body become a message, by the `google.api.http` rules in the contract,
//! and how a message or a status becomes an answer. Invariant: nothing is known here of any particular method; a
//! new method with a rule is reachable without a line of code. Every wrong field is named at once, as
//! `application/problem+json`. A success is always 200, with `{}` where the method returns nothing. Deliberately
//! not here: streaming methods, which have no rule: see [`crate::events`].

mod codec;
mod json;
mod problem;
mod query;
mod rule;
mod unread;

pub use problem::of_status as problem;
pub use rule::GatewayError;
pub(crate) use rule::{Body, Rule, rules, streams};
pub use unread::{NAMED_MAX, Unread, more_are_wrong};

use crate::auth::Counted;
use crate::document::{self, Document};
use crate::status;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use codec::DynamicCodec;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use model::validate::FieldError;
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use std::sync::Arc;
use tonic::Status;
use tonic::metadata::MetadataValue;
use tonic::service::Routes;

/// Headers that become metadata of the call, under their own names.
const FORWARDED: [&str; 4] = ["authorization", "traceparent", "tracestate", "idempotency-key"];

/// Everything that is wrong with a request of which something could not be read: given are the method's name, what could be
/// read of its input, encoded, and what is wrong with the rest. A list has a default in each place that could not be read.
pub type Judge = fn(rpc: &str, input: &[u8], unread: Unread) -> Vec<FieldError>;

/// The REST side of some services; clones share it.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// The most specific first.
    rules: Arc<[Rule]>,
    routes: Routes,
    body_bytes_max: usize,
    judge: Judge,
}

/// What a request asks for.
enum Asked<'a> {
    /// This method, with these variables of the path.
    Call(&'a Rule, Vec<rule::Variable>),
    /// A path that has only these methods.
    OtherMethods(Vec<&'a Method>),
    /// A path that nothing has.
    Nothing,
}

impl Gateway {
    /// The gateway to `routes`, which [`crate::auth::guard`] has closed; it reads bodies of at most `body_bytes_max`
    /// bytes.
    ///
    /// # Errors
    /// [`GatewayError`] when a rule of the contract can't be served; a test excludes it.
    pub fn new(routes: Routes, body_bytes_max: usize) -> Result<Self, GatewayError> {
        let rules = rules(crate::descriptors())?.into();
        Ok(Self { rules, routes: routes.prepare(), body_bytes_max, judge: |_, _, unread| unread.told() })
    }

    /// The same, which asks `judge` what else is wrong where not all could be read: the method is not called then.
    #[must_use]
    pub fn judging(self, judge: Judge) -> Self {
        Self { judge, ..self }
    }

    /// Answers every path that no other route of the router has.
    pub fn router(self) -> Router {
        let announced = middleware::from_fn_with_state(self.body_bytes_max, refuse_announced);
        let most = DefaultBodyLimit::max(self.body_bytes_max);
        Router::new().fallback(handle).layer(most).layer(announced).with_state(self)
    }

    fn find(&self, method: &Method, path: &str) -> Asked<'_> {
        // Whoever answers GET answers HEAD; the server leaves the body out.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let mut others = Vec::new();
        for rule in self.rules.iter() {
            match rule.matches(path) {
                Some(variables) if rule.method == *method => return Asked::Call(rule, variables),
                Some(_) => others.push(&rule.method),
                None => {}
            }
        }
        if others.is_empty() { Asked::Nothing } else { Asked::OtherMethods(others) }
    }

    /// Calls the method of `rule` in this process.
    async fn call(
        &self,
        rule: &Rule,
        message: DynamicMessage,
        headers: &HeaderMap,
        counted: Option<Counted>,
    ) -> Result<DynamicMessage, Status> {
        let mut request = tonic::Request::new(message);
        if let Some(counted) = counted {
            request.extensions_mut().insert(counted);
        }
        for name in FORWARDED {
            let value = headers.get(name).and_then(|value| MetadataValue::try_from(value.as_bytes()).ok());
            if let Some(value) = value {
                request.metadata_mut().insert(name, value);
            }
        }
        let path = format!("/{}/{}", rule.rpc.parent_service().full_name(), rule.rpc.name());
        let path =
            PathAndQuery::try_from(path).map_err(|error| status::internal("naming the method", &error))?;
        let mut client = tonic::client::Grpc::new(self.routes.clone()).max_decoding_message_size(usize::MAX);
        // `Infallible`: routes in this process are always ready.
        client.ready().await.map_err(|error| status::internal("calling the method", &error))?;
        Ok(client.unary(request, path, DynamicCodec::new(rule.rpc.output())).await?.into_inner())
    }
}

/// Refuses a body that says that it is too large, before any of it comes.
async fn refuse_announced(State(most): State<usize>, request: Request, next: Next) -> Response {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let bytes = announced.and_then(|announced| announced.parse::<u64>().ok());
    if bytes.is_some_and(|bytes| bytes > most as u64) {
        return problem::too_large(most);
    }
    next.run(request).await
}

async fn handle(
    State(gateway): State<Gateway>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    counted: Option<Extension<Counted>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let (rule, variables) = match gateway.find(&method, uri.path()) {
        Asked::Call(rule, variables) => (rule, variables),
        Asked::OtherMethods(methods) => return problem::method_not_allowed(&methods),
        Asked::Nothing => {
            return problem::of_status(&Status::not_found(format!("there is no {}", uri.path())));
        }
    };
    let body = match body {
        Ok(body) => body,
        Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return problem::too_large(gateway.body_bytes_max);
        }
        Err(_) => {
            return problem::of_status(&Status::invalid_argument("the body could not be read to its end"));
        }
    };
    if !body.is_empty() && !is_json(&headers) {
        return problem::not_json();
    }
    let answer = match message(rule, &variables, uri.query().unwrap_or_default(), &body, gateway.judge) {
        Ok(message) => gateway.call(rule, message, &headers, counted.map(|counted| counted.0)).await,
        Err(status) => Err(status),
    };
    match answer.and_then(|message| json::write(&message)) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(status) => problem::of_status(&status),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// The request as the method's input: the body first, then parameters, then the path's variables.
fn message(
    rule: &Rule,
    variables: &[rule::Variable],
    query: &str,
    body: &[u8],
    judge: Judge,
) -> Result<DynamicMessage, Status> {
    let mut unread = Unread::default();
    let input = rule.rpc.input();
    let mut message = match &rule.body {
        Body::None if body.is_empty() => DynamicMessage::new(input),
        Body::None => {
            let method = &rule.method;
            return Err(Status::invalid_argument(format!(
                "{method} takes no body: give parameters, as ?name=value"
            )));
        }
        Body::Whole => parse(&input, body, &mut unread)?,
        Body::Field(field, kind) => {
            let part = parse(kind, body, &mut unread)?;
            let mut message = DynamicMessage::new(input);
            message.set_field(field, Value::Message(part));
            message
        }
    };
    query::parameters(&mut message, query, rule, &mut unread);
    for variable in variables {
        query::set(&mut message, &variable.path, &variable.value, &mut unread);
    }
    if unread.is_empty() {
        return Ok(message);
    }
    Err(status::invalid(judge(rule.rpc.name(), &message.encode_to_vec(), unread)))
}

fn parse(kind: &MessageDescriptor, body: &[u8], unread: &mut Unread) -> Result<DynamicMessage, Status> {
    if body.is_empty() {
        return Ok(DynamicMessage::new(kind.clone()));
    }
    let Document { value, repeated } = serde_json::from_slice(body)
        .map_err(|error| Status::invalid_argument(format!("the body is not JSON: {error}")))?;
    if !value.is_object() {
        return Err(Status::invalid_argument("the body is not a JSON object"));
    }
    for path in repeated {
        unread.add(path, || document::REPEATED.to_owned());
    }
    Ok(json::read(kind, &value, "", unread))
}

#[cfg(test)]
mod tests;
