//! The `google.api.http` rules of the contract, and which of them a path matches.

use crate::events::{self, Events};
use http::Method;
use percent_encoding::percent_decode_str;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, MessageDescriptor, MethodDescriptor, Value,
};
use std::collections::HashMap;

/// A rule that can't be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the HTTP rule of {rpc} can't be served: {problem}")]
pub struct GatewayError {
    /// The method's full name.
    pub rpc: String,
    /// Why.
    pub problem: String,
}

/// One way to call one method.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) method: Method,
    /// As written: `/v1/jobs/{job}:pause`.
    pub(crate) pattern: String,
    pub(crate) segments: Vec<Segment>,
    /// What follows the last colon.
    verb: Option<String>,
    pub(crate) body: Body,
    pub(crate) rpc: MethodDescriptor,
}

/// A part of a path between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Itself.
    Literal(String),
    /// Anything; the value of this field.
    Variable(Vec<String>),
}

/// Where the request's body goes.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// There is none.
    None,
    /// It is the input.
    Whole,
    /// It is this field of the input, of this kind.
    Field(FieldDescriptor, MessageDescriptor),
}

/// A variable of a path with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) path: Vec<String>,
    pub(crate) value: String,
}

/// Every rule of every service, the most specific first.
pub(crate) fn rules(pool: &DescriptorPool) -> Result<Vec<Rule>, GatewayError> {
    let mut rules = Vec::new();
    let Some(extension) = pool.get_extension_by_name("google.api.http") else { return Ok(rules) };
    for rpc in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let options = rpc.options();
        if !options.has_extension(&extension) {
            continue;
        }
        let Value::Message(first) = options.get_extension(&extension).into_owned() else { continue };
        let further = first.get_field_by_name("additional_bindings").map(std::borrow::Cow::into_owned);
        rules.push(Rule::read(&rpc, &first)?);
        for binding in further.iter().filter_map(Value::as_list).flatten().filter_map(Value::as_message) {
            rules.push(Rule::read(&rpc, binding)?);
        }
    }
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.weight()));
    Ok(rules)
}

/// Where the methods that stream are served, as rules that the gateway itself does not serve.
pub(crate) fn streams(pool: &DescriptorPool) -> Result<Vec<Rule>, GatewayError> {
    let all: HashMap<String, MethodDescriptor> = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|rpc| (rpc.full_name().to_owned(), rpc))
        .collect();
    let unknown =
        |rpc: &str| GatewayError { rpc: rpc.to_owned(), problem: "there is no such method".to_owned() };
    let rule = |events: &Events| {
        let rpc = all.get(events.rpc).ok_or_else(|| unknown(events.rpc))?;
        Rule::new(rpc, Method::GET, events.path.to_owned(), "")
    };
    events::ALL.iter().map(rule).collect()
}

impl Rule {
    fn read(rpc: &MethodDescriptor, rule: &DynamicMessage) -> Result<Self, GatewayError> {
        let wrong =
            |problem: &str| GatewayError { rpc: rpc.full_name().to_owned(), problem: problem.to_owned() };
        if rpc.is_client_streaming() || rpc.is_server_streaming() {
            return Err(wrong("the method streams"));
        }
        let methods = [
            ("get", Method::GET),
            ("put", Method::PUT),
            ("post", Method::POST),
            ("delete", Method::DELETE),
            ("patch", Method::PATCH),
        ];
        let named = methods.into_iter().find(|(name, _)| rule.has_field_by_name(name));
        let (name, method) = named.ok_or_else(|| wrong("use get, put, post, delete or patch"))?;
        Self::new(rpc, method, text(rule, name), &text(rule, "body"))
    }

    fn new(
        rpc: &MethodDescriptor,
        method: Method,
        pattern: String,
        body: &str,
    ) -> Result<Self, GatewayError> {
        let wrong =
            |problem: &str| GatewayError { rpc: rpc.full_name().to_owned(), problem: problem.to_owned() };
        let (path, verb) = match pattern.rsplit_once(':') {
            Some((path, verb)) if !verb.contains(['/', '}']) => (path, Some(verb.to_owned())),
            _ => (pattern.as_str(), None),
        };
        let rest = path.strip_prefix('/').ok_or_else(|| wrong("the path has no leading slash"))?;
        let segments: Option<Vec<Segment>> = rest.split('/').map(segment).collect();
        let segments = segments.ok_or_else(|| wrong("a variable is a whole segment, without a pattern"))?;
        let body = match body {
            "" => Body::None,
            "*" => Body::Whole,
            name => {
                let field =
                    rpc.input().get_field_by_name(name).ok_or_else(|| wrong("the body is no field"))?;
                let kind = field.kind().as_message().cloned().filter(|_| !field.is_list() && !field.is_map());
                Body::Field(field, kind.ok_or_else(|| wrong("the body is no message"))?)
            }
        };
        Ok(Self { method, segments, verb, body, rpc: rpc.clone(), pattern })
    }

    /// Literal text outweighs a variable, so that `/jobs/{job}:pause` is asked before `/jobs/{job}`.
    fn weight(&self) -> (bool, usize) {
        let literals = self.segments.iter().filter(|segment| matches!(segment, Segment::Literal(_)));
        (self.verb.is_some(), literals.count())
    }

    /// The values of the variables, decoded, when `path` is one of this rule.
    pub(super) fn matches(&self, path: &str) -> Option<Vec<Variable>> {
        let path = path.strip_prefix('/')?;
        let path = match &self.verb {
            Some(verb) => path.strip_suffix(verb.as_str())?.strip_suffix(':')?,
            None => path,
        };
        let parts: Vec<&str> = path.split('/').collect();
        if parts.len() != self.segments.len() {
            return None;
        }
        let mut variables = Vec::new();
        for (segment, part) in self.segments.iter().zip(parts) {
            let value = percent_decode_str(part).decode_utf8().ok()?.into_owned();
            match segment {
                Segment::Literal(literal) if *literal == value => {}
                Segment::Variable(path) if !value.is_empty() => {
                    variables.push(Variable { path: path.clone(), value });
                }
                Segment::Literal(_) | Segment::Variable(_) => return None,
            }
        }
        Some(variables)
    }

    /// The fields that the path gives.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &[String]> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Variable(path) => Some(path.as_slice()),
            Segment::Literal(_) => None,
        })
    }
}

fn segment(text: &str) -> Option<Segment> {
    match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        Some(name) if name.is_empty() || name.contains(['=', '*']) => None,
        Some(name) => Some(Segment::Variable(name.split('.').map(str::to_owned).collect())),
        None if text.is_empty() || text.contains(['{', '}', '*']) => None,
        None => Some(Segment::Literal(text.to_owned())),
    }
}

fn text(rule: &DynamicMessage, field: &str) -> String {
    let value = rule.get_field_by_name(field);
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, verb: Option<&str>) -> Rule {
        let service =
            crate::descriptors().get_service_by_name("escapement.v1.JobService").expect("it is there");
        let rpc = service.methods().next().expect("it has methods");
        let segments = pattern.split('/').map(|text| segment(text).expect("a segment")).collect();
        let verb = verb.map(str::to_owned);
        Rule { method: Method::POST, pattern: pattern.to_owned(), segments, verb, body: Body::None, rpc }
    }

    fn values(rule: &Rule, path: &str) -> Option<Vec<String>> {
        Some(rule.matches(path)?.into_iter().map(|variable| variable.value).collect())
    }

    #[test]
    fn every_rule_of_the_contract_can_be_served() {
        let rules = rules(crate::descriptors()).expect("all can");
        assert!(rules.iter().any(|rule| rule.pattern == "/v1/jobs/{job}/runs/{scheduled_for}"));
    }

    #[test]
    fn variables_are_whole_segments_and_never_empty() {
        let run = rule("v1/jobs/{job}/runs/{at}", None);
        assert_eq!(
            values(&run, "/v1/jobs/a%2Fb/runs/2026-11-29T09:00:00Z"),
            Some(vec!["a/b".to_owned(), "2026-11-29T09:00:00Z".to_owned()])
        );
        for other in
            ["/v1/jobs//runs/x", "/v1/jobs/a/runs", "/v1/jobs/a/runs/b/c", "/v1/jobs/a/runs/%ff", "v1"]
        {
            assert_eq!(values(&run, other), None, "{other}");
        }
    }

    #[test]
    fn a_verb_follows_the_last_colon_and_comes_first() {
        let (plain, pause) = (rule("v1/jobs/{job}", None), rule("v1/jobs/{job}", Some("pause")));
        assert!(pause.weight() > plain.weight());
        assert_eq!(values(&pause, "/v1/jobs/a:pause"), Some(vec!["a".to_owned()]));
        assert_eq!(values(&pause, "/v1/jobs/a:b:pause"), Some(vec!["a:b".to_owned()]));
        for other in ["/v1/jobs/a:resume", "/v1/jobs/a", "/v1/jobs/:pause", "/v1/jobs/apause"] {
            assert_eq!(values(&pause, other), None, "{other}");
        }
    }

    #[test]
    fn patterns_that_are_not_served_are_refused() {
        for wrong in ["{name=jobs/*}", "{}", "*", "a{b}", ""] {
            assert_eq!(segment(wrong), None, "{wrong}");
        }
        assert_eq!(segment("{job.name}"), Some(Segment::Variable(vec!["job".to_owned(), "name".to_owned()])));
    }
}
