//! What work is told about its run: variables for a process, headers for an HTTP call, the same facts in both.

use model::ids::instant_text;
use worker::RunContext;

/// The variable with the trace context, by its W3C name.
const TRACE_VARIABLE: &str = "TRACEPARENT";
/// The header with the trace context.
const TRACE_HEADER: &str = "traceparent";

/// One fact: the variable's name, the header's, and the value.
type Fact = (&'static str, &'static str, String);

/// The facts in force for one attempt.
fn facts(run: &RunContext) -> Vec<Fact> {
    let fact = |variable, header, value| (variable, header, value);
    let mut facts = vec![
        fact("ESCAPEMENT_RUN_ID", "escapement-run-id", run.run_name()),
        fact("ESCAPEMENT_SCHEDULED_FOR", "escapement-scheduled-for", instant_text(run.scheduled_for())),
        fact("ESCAPEMENT_ATTEMPT", "escapement-attempt", run.attempt().to_string()),
        fact("ESCAPEMENT_IDEMPOTENCY_KEY", "escapement-idempotency-key", run.idempotency_key().to_owned()),
        fact("ESCAPEMENT_FENCING_TOKEN", "escapement-fencing-token", run.fencing_token().to_string()),
        fact("ESCAPEMENT_GUARD_KEY", "escapement-guard-key", run.guard_key().to_owned()),
        fact("ESCAPEMENT_DEADLINE", "escapement-deadline", instant_text(run.deadline())),
    ];
    if let Some(context) = run.traceparent() {
        facts.push(fact(TRACE_VARIABLE, TRACE_HEADER, context.to_owned()));
    }
    facts
}

/// For a process.
pub fn variables(run: &RunContext) -> impl Iterator<Item = (&'static str, String)> {
    facts(run).into_iter().map(|(variable, _, value)| (variable, value))
}

/// For an HTTP call.
pub fn headers(run: &RunContext) -> impl Iterator<Item = (&'static str, String)> {
    facts(run).into_iter().map(|(_, header, value)| (header, value))
}
