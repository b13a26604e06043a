//! The registry's REST API as the commands use it; its errors as sentences.

use crate::arguments::Trusted;
use crate::failure::Failure;
use crate::hint::{self, Origin, Source};
use crate::suggest;
use crate::wrong::WrongField;
use anyhow::{Context, bail};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use stack::dev::Endpoints;
use std::path::Path;
use std::time::Duration;

/// Longer than any call of the API takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A registry and who asks it.
pub struct Client {
    http: reqwest::Client,
    server: String,
    token: Option<String>,
    trusted: Trusted,
    origin: Origin,
}

impl Client {
    /// A client of the registry at `server`; `origin` says where that and the token stood.
    ///
    /// # Errors
    /// When the token can't be one.
    pub fn new(server: &str, token: Option<String>, origin: Origin) -> anyhow::Result<Self> {
        if let (Some(token), Some(source)) = (&token, &origin.token)
            && !token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            bail!(
                "the token from {source} is none: it has a line break, a blank or another character that none has"
            );
        }
        let (server, trusted) = (server.trim_end_matches('/').to_owned(), Trusted::default());
        Ok(Self { http: prepared(trusted.client().timeout(TIMEOUT))?, server, token, trusted, origin })
    }

    /// The same, with certificates checked against `trusted` and shown from it.
    pub fn trusting(self, trusted: Trusted) -> anyhow::Result<Self> {
        Ok(Self { http: prepared(trusted.client().timeout(TIMEOUT))?, trusted, ..self })
    }

    /// A client of the stack that `escapement dev` runs in `data`, as its administrator unless a token is given, with
    /// where it stood.
    pub fn of_local_stack(data: &Path, token: Option<(String, Source)>) -> anyhow::Result<Self> {
        let endpoints = Endpoints::read(data).with_context(|| {
            format!(
                "no server: set ESCAPEMENT_SERVER, choose one with `escapement context`, or start a local stack (none runs in {})",
                data.display()
            )
        })?;
        match token {
            Some((token, source)) => {
                let origin = Origin { server: Source::LocalStack, token: Some(source) };
                Self::new(&endpoints.registry.rest, Some(token), origin)
            }
            None => Self::of_administrator(&endpoints),
        }
    }

    /// A client of a local stack's registry as its administrator.
    pub fn of_administrator(endpoints: &Endpoints) -> anyhow::Result<Self> {
        let token = std::fs::read_to_string(&endpoints.admin_token_file)
            .with_context(|| format!("reading {}", endpoints.admin_token_file.display()))?;
        let origin = Origin { server: Source::LocalStack, token: Some(Source::LocalStack) };
        Self::new(&endpoints.registry.rest, Some(token.trim().to_owned()), origin)
    }

    /// The registry's address, without a slash at its end.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// GET.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::GET, path, None, None).await
    }

    /// POST.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call(Method::POST, path, Some(body), None).await
    }

    /// POST; repeated with the same `key`, it changes nothing more and answers the same.
    pub async fn post_once(&self, path: &str, body: &Value, key: Option<&str>) -> anyhow::Result<Value> {
        self.call(Method::POST, path, Some(body), key).await
    }

    /// PUT.
    pub async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call(Method::PUT, path, Some(body), None).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::DELETE, path, None, None).await
    }

    /// GET of an answer that comes for as long as it takes.
    pub async fn stream(&self, path: &str) -> anyhow::Result<reqwest::Response> {
        let http = prepared(self.trusted.client().connect_timeout(TIMEOUT))?;
        let mut request = http.get(format!("{}{path}", self.server));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let answer = Answer::read(response).await?;
        Err(self.refused(&answer, path, None).await.into())
    }

    /// Every page of a list, as one array under `field`.
    pub async fn list(&self, path: &str, field: &str) -> anyhow::Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut token = String::new();
        loop {
            let more = if path.contains('?') { '&' } else { '?' };
            let mut page =
                self.get(&format!("{path}{more}pageSize=1000&pageToken={}", encode(&token))).await?;
            if let Value::Array(items) = page[field].take() {
                all.extend(items);
            }
            match page["nextPageToken"].as_str() {
                None | Some("") => return Ok(all),
                Some(next) => next.clone_into(&mut token),
            }
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> anyhow::Result<Value> {
        let answer = self.answer(method, path, body, key).await?;
        if !answer.status.is_success() {
            return Err(self.refused(&answer, path, body).await.into());
        }
        if answer.text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer.text).with_context(|| {
            format!(
                "{} answered something else than a registry: see that this is its REST address",
                self.server
            )
        })
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> anyhow::Result<Answer> {
        let mut request = self.http.request(method, format!("{}{path}", self.server));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        Answer::read(request.send().await.map_err(|source| self.unreachable(source))?).await
    }

    /// The names under which things are found at `path`, a list of the API; none when it does not answer.
    pub async fn names(&self, path: &str, field: &str) -> Vec<String> {
        let Ok(answer) = self.answer(Method::GET, path, None, None).await else { return Vec::new() };
        let page: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        let items = page[field].as_array().map_or(&[][..], Vec::as_slice);
        items.iter().filter_map(|item| item["name"].as_str().map(str::to_owned)).collect()
    }

    fn unreachable(&self, source: reqwest::Error) -> Failure {
        // The address is in the message already, and what was asked there helps nobody.
        let source = source.without_url();
        Failure::Unreachable { server: self.server.clone(), origin: self.origin.clone(), source }
    }

    async fn refused(&self, answer: &Answer, path: &str, body: Option<&Value>) -> Failure {
        let status = answer.status;
        let Ok(problem) = serde_json::from_str::<Value>(&answer.text) else {
            let text = format!("{} answered {status}, and not as a registry does", self.server);
            let next = hint::no_registry(status, &self.origin);
            return Failure::Refused { status: status.as_u16(), head: Some(text), wrong: Vec::new(), next };
        };
        let mut next = hint::of_problem(&problem, answer.retry_after, path, &self.origin);
        if status == StatusCode::NOT_FOUND {
            next.extend(suggest::instead(self, path, body).await);
        }
        let (head, wrong) = said(&problem);
        Failure::Refused { status: status.as_u16(), head, wrong, next }
    }
}

/// What came back.
struct Answer {
    status: StatusCode,
    /// Seconds after which it is worth another try.
    retry_after: Option<u64>,
    text: String,
}

impl Answer {
    async fn read(response: reqwest::Response) -> anyhow::Result<Self> {
        let status = response.status();
        let after = response.headers().get(reqwest::header::RETRY_AFTER);
        let retry_after = after.and_then(|after| after.to_str().ok()?.parse().ok());
        let text = response.text().await.context("reading the registry's answer")?;
        Ok(Self { status, retry_after, text })
    }
}

fn prepared(builder: reqwest::ClientBuilder) -> anyhow::Result<reqwest::Client> {
    builder.build().context("preparing the HTTP client")
}

/// What a problem document says: what is wrong, unless its fields say all of it, and each wrong field.
fn said(problem: &Value) -> (Option<String>, Vec<WrongField>) {
    let detail = problem["detail"].as_str().or(problem["title"].as_str()).unwrap_or("refused");
    let text = |error: &Value, part: &str, none: &str| error[part].as_str().unwrap_or(none).to_owned();
    let errors = problem["errors"].as_array().map_or(&[][..], Vec::as_slice).iter();
    let wrong: Vec<_> = errors
        .map(|error| WrongField { field: text(error, "field", ""), message: text(error, "message", "?") })
        .collect();
    // A summary of wrong fields is all of them in one line.
    let repeats = !wrong.is_empty() && wrong.iter().all(|wrong| detail.contains(&wrong.message));
    ((!repeats).then(|| detail.to_owned()), wrong)
}

/// Percent-encodes one segment of a path or value of a query.
pub fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrong::told;
    use serde_json::json;

    fn sentence(problem: &Value) -> String {
        let (head, wrong) = said(problem);
        told(head.as_deref(), &wrong)
    }

    #[test]
    fn every_wrong_field_gets_a_line() {
        let problem = json!({"status": 400, "detail": "2 fields are wrong", "errors": [
            {"field": "schedule", "message": "minute 60: use 0-59"}, {"field": "name", "message": "is missing"}]});
        assert_eq!(
            sentence(&problem),
            "2 fields are wrong\n  schedule: minute 60: use 0-59\n  name: is missing"
        );
    }

    #[test]
    fn a_summary_that_repeats_its_fields_gives_way_to_them() {
        let problem = json!({"status": 400, "detail": "a: x; b: y", "errors": [
            {"field": "a", "message": "x"}, {"field": "b", "message": "y"}, {"field": "", "message": "x"}]});
        assert_eq!(sentence(&problem), "several fields are wrong\n  a: x\n  b: y\n  x");
    }

    #[test]
    fn a_single_wrong_field_is_said_once() {
        let problem = json!({"status": 400, "detail": "schedule: minute 60: use 0-59", "errors": [
            {"field": "schedule", "message": "minute 60: use 0-59"}]});
        assert_eq!(sentence(&problem), "schedule: minute 60: use 0-59");
    }

    #[test]
    fn segments_can_not_leave_their_place() {
        assert_eq!(encode("a/../b c"), "a%2F..%2Fb%20c");
    }
}
