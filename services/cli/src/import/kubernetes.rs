//! CronJob manifests of Kubernetes, `batch/v1` and `v1beta1`, alone, in lists, or among other objects.
//!
//! A CronJob starts containers, ours starts a process where an agent is: an agent in the container's image, on the queue
//! that `--queue` names, is what its command needs.

use super::document::{Common, Document, Exec, Misfire, Retry};
use super::naming::Names;
use super::{Import, Verdict};
use model::validate::{limits, name};
use rpc::document::{self, REPEATED};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Kubernetes tries a failing job again so often when its manifest does not say.
const BACKOFF_LIMIT: u32 = 6;
/// The longest wait between its tries, six minutes.
const BACKOFF_MAX: &str = "6m";

/// Each CronJob of the manifests as a job.
pub fn kubernetes(text: &str, common: &Common) -> Import {
    let (mut import, mut names) = (Import::default(), Names::default());
    for (index, document) in serde_yaml_ng::Deserializer::from_str(text).enumerate() {
        let place = format!("document {}", index + 1);
        match document::Document::deserialize(document) {
            Ok(read) if read.value.is_null() => {}
            Ok(read) if read.repeated.is_empty() => {
                objects(&place, &read.value, common, &mut names, &mut import);
            }
            Ok(read) => {
                for key in read.repeated {
                    import.remark(&place, Verdict::Refused, format!("{key} {REPEATED}"));
                }
            }
            Err(error) => {
                import.remark(&place, Verdict::Refused, format!("is not YAML: {error}"));
                break; // the reader can't find the next one
            }
        }
    }
    import
}

fn objects(place: &str, object: &Value, common: &Common, names: &mut Names, import: &mut Import) {
    let kind = object["kind"].as_str().unwrap_or("");
    match kind {
        "CronJob" => cron_job(place, object, common, names, import),
        _ if kind.ends_with("List") => {
            for (index, item) in object["items"].as_array().into_iter().flatten().enumerate() {
                objects(&format!("{place}, item {}", index + 1), item, common, names, import);
            }
        }
        "" => import.remark(place, Verdict::Refused, "kind is missing: a CronJob is expected"),
        other => import.remark(place, Verdict::Refused, format!("kind {other}: only CronJob has a schedule")),
    }
}

fn cron_job(place: &str, object: &Value, common: &Common, names: &mut Names, import: &mut Import) {
    let spec = &object["spec"];
    let (job, pod) = (&spec["jobTemplate"]["spec"], &spec["jobTemplate"]["spec"]["template"]["spec"]);
    let mut differs = Vec::new();
    let mut document = Document::new(common);
    let run = match container(pod).and_then(|container| exec(container, &mut differs)) {
        Ok(run) => run,
        Err(why) => return import.remark(place, Verdict::Refused, why),
    };
    document.run.exec = run;
    if let Err(why) = schedule(&mut document, spec, common, &mut differs) {
        return import.remark(place, Verdict::Refused, why);
    }
    policies(&mut document, spec, job, &mut differs);
    labels(&mut document, &object["metadata"], &mut differs);
    left_out(spec, job, pod, &mut differs);
    if let Some(wrong) = document.wrong() {
        return import.remark(place, Verdict::Refused, wrong);
    }
    document.name = names.give(&common.prefix, object["metadata"]["name"].as_str().unwrap_or(""));
    if spec["suspend"] == true {
        differs.push(format!(
            "suspend: it is not paused yet: `escapement pause {}` once it is applied",
            document.name
        ));
    }
    import.remark(place, Verdict::Mapped, format!("job {}", document.name));
    for text in differs {
        import.remark(place, Verdict::Differs, text);
    }
    import.documents.push(document);
}

/// The one container whose command can be a process.
fn container(pod: &Value) -> Result<&Value, String> {
    if pod["initContainers"].as_array().is_some_and(|list| !list.is_empty()) {
        return Err("initContainers: a run is one process: put them into one command".to_owned());
    }
    match pod["containers"].as_array().map_or(&[] as &[Value], Vec::as_slice) {
        [container] => Ok(container),
        [] => {
            Err("spec.jobTemplate.spec.template.spec.containers is empty: one container is expected"
                .to_owned())
        }
        many => Err(format!("{} containers: a run is one process: make a job for each", many.len())),
    }
}

fn exec(container: &Value, differs: &mut Vec<String>) -> Result<Exec, String> {
    let mut env = BTreeMap::new();
    for variable in container["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().unwrap_or("").to_owned();
        match variable["value"].as_str() {
            Some(value) => {
                let value = expanded(value, &env);
                env.insert(name, value);
            }
            None if variable.get("valueFrom").is_none() => {
                env.insert(name, String::new());
            }
            None => {
                differs.push(format!("env {name} comes from elsewhere: give it to the agent's environment"))
            }
        }
    }
    if container.get("envFrom").is_some() {
        differs.push("envFrom: give these variables to the agent's environment".to_owned());
    }
    let texts = |field: &str| -> Vec<String> {
        let list = container[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(|text| expanded(text, &env)).collect()
    };
    let image = container["image"].as_str().unwrap_or("");
    let mut argv = texts("command");
    if argv.is_empty() {
        return Err(format!(
            "no command: the entrypoint of the image {image:?} isn't known here: write it into the manifest"
        ));
    }
    argv.extend(texts("args"));
    if let Some(text) = argv.iter().find(|text| text.contains("$(")) {
        differs.push(format!("{text:?} names a variable that the manifest does not have"));
    }
    differs.push(format!(
        "image {image}: the command runs where an agent is: run one in this image, on the job's queue"
    ));
    let working_directory = container["workingDir"].as_str().map(str::to_owned);
    Ok(Exec { argv, env, working_directory, shell: None })
}

/// With each `$(NAME)` of a known variable replaced; `$$(NAME)` is `$(NAME)`, literally.
fn expanded(text: &str, env: &BTreeMap<String, String>) -> String {
    let (mut result, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("$(") {
        let (before, from) = rest.split_at(at);
        let Some(end) = from.find(')') else { break };
        let (reference, after) = from.split_at(end + 1);
        match (before.strip_suffix('$'), env.get(&reference[2..end])) {
            (Some(before), _) => result.extend([before, reference]),
            (None, Some(value)) => result.extend([before, value]),
            (None, None) => result.extend([before, reference]),
        }
        rest = after;
    }
    result + rest
}

fn schedule(
    document: &mut Document,
    spec: &Value,
    common: &Common,
    differs: &mut Vec<String>,
) -> Result<(), String> {
    let Some(text) = spec["schedule"].as_str() else { return Err("spec.schedule is missing".to_owned()) };
    let inline = ["CRON_TZ=", "TZ="].iter().find_map(|prefix| text.strip_prefix(prefix)?.split_once(' '));
    let (zone, text) = inline.map_or((None, text), |(zone, text)| (Some(zone), text.trim()));
    text.clone_into(&mut document.schedule);
    let zone = zone.or(spec["timeZone"].as_str());
    document.timezone = zone.map(str::to_owned).or_else(|| common.timezone.clone());
    if document.timezone.is_none() {
        differs.push(
            "times are read as UTC; the cluster reads them in its controller's zone: import with --timezone"
                .to_owned(),
        );
    }
    Ok(())
}

fn policies(document: &mut Document, spec: &Value, job: &Value, differs: &mut Vec<String>) {
    document.overlap = Some(match spec["concurrencyPolicy"].as_str() {
        Some("Forbid") => "FORBID",
        Some("Replace") => "REPLACE",
        _ => "ALLOW",
    });
    if let Some(seconds) = spec["startingDeadlineSeconds"].as_u64() {
        let least = limits::GRACE_MIN.as_secs();
        if seconds < least {
            differs.push(format!("startingDeadlineSeconds {seconds}: the shortest grace is {least} s"));
        }
        // Within the deadline the latest missed one starts late, past it none does.
        document.misfire = Some(Misfire { policy: "SKIP", grace: Some(format!("{}s", seconds.max(least))) });
    }
    let tries =
        job["backoffLimit"].as_u64().map_or(BACKOFF_LIMIT, |tries| u32::try_from(tries).unwrap_or(u32::MAX));
    let most = u32::from(limits::ATTEMPTS_MAX);
    if tries >= most {
        differs.push(format!("backoffLimit {tries}: at most {most} attempts"));
    }
    let max_attempts = tries.saturating_add(1).min(most);
    document.retry = (max_attempts > 1).then_some(Retry { max_attempts, backoff_max: Some(BACKOFF_MAX) });
    match job["activeDeadlineSeconds"].as_u64() {
        Some(seconds) => {
            document.max_runtime = Some(format!("{seconds}s"));
            if max_attempts > 1 {
                differs.push(
                    "activeDeadlineSeconds bounds all tries together, maxRuntime each attempt".to_owned(),
                );
            }
        }
        None => differs
            .push("an attempt is ended after an hour: set maxRuntime where that is too short".to_owned()),
    }
}

fn labels(document: &mut Document, metadata: &Value, differs: &mut Vec<String>) {
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let ours = key.replace('/', ".").to_ascii_lowercase();
        let value = value.as_str().unwrap_or("");
        if name("", &ours).is_some() || value.len() > limits::NAME_BYTES {
            differs.push(format!("label {key} is left out: keys are 1 to 63 of a-z, 0-9, '.', '_', '-'"));
        } else {
            document.labels.entry(ours).or_insert_with(|| value.to_owned());
        }
    }
    if let Some(namespace) = metadata["namespace"].as_str() {
        document.labels.entry("namespace".to_owned()).or_insert_with(|| namespace.to_owned());
    }
}

/// Parts that are a matter of where a process runs, or that have no counterpart.
fn left_out(spec: &Value, job: &Value, pod: &Value, differs: &mut Vec<String>) {
    for (place, field, text) in [
        (job, "podFailurePolicy", "use retry.finalStatuses for exit statuses that no retry heals"),
        (job, "completions", "a run is one process"),
        (job, "parallelism", "a run is one process"),
        (spec, "successfulJobsHistoryLimit", "history is kept by age, for all jobs"),
        (spec, "failedJobsHistoryLimit", "history is kept by age, for all jobs"),
        (pod, "serviceAccountName", "it is the agent's"),
        (pod, "volumes", "they are the agent's"),
        (pod, "nodeSelector", "run the agent there, with a queue of its own"),
    ] {
        let one = place[field].as_u64() == Some(1) && matches!(field, "completions" | "parallelism");
        if place.get(field).is_some() && !one {
            differs.push(format!("{field} is left out: {text}"));
        }
    }
}

#[cfg(test)]
mod tests;
