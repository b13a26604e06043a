use super::{Common, expanded, kubernetes};
use crate::import::{Import, Verdict};
use std::collections::BTreeMap;

const INVOICES: &str = r#"
apiVersion: batch/v1
kind: CronJob
metadata:
  name: invoices
  namespace: billing
  labels: {app.kubernetes.io/name: Invoices, "UPPER CASE": x}
spec:
  schedule: "0 9 * * 1-5"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 120
  successfulJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 1800
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: main
            image: billing:1.4
            workingDir: /srv
            command: [billing]
            args: ["send", "--to=$(TARGET)"]
            env:
            - {name: TARGET, value: eu}
            - {name: PASSWORD, valueFrom: {secretKeyRef: {name: db, key: password}}}
"#;

fn import(text: &str) -> Import {
    kubernetes(text, &Common::default())
}

fn remarks(import: &Import, verdict: Verdict) -> Vec<&str> {
    import
        .remarks
        .iter()
        .filter(|remark| remark.verdict == verdict)
        .map(|remark| remark.text.as_str())
        .collect()
}

#[test]
fn a_cron_job_is_a_job_with_its_policies() {
    let import = import(INVOICES);
    assert_eq!(
        import.to_yaml().expect("YAML"),
        "kind: Job\nname: invoices\nschedule: 0 9 * * 1-5\ntimezone: Europe/Berlin\nmisfire:\n  policy: SKIP\n  grace: 120s\n\
         overlap: FORBID\nmaxRuntime: 1800s\nretry:\n  maxAttempts: 3\n  backoffMax: 6m\nlabels:\n  app.kubernetes.io.name: \
         Invoices\n  namespace: billing\nrun:\n  exec:\n    argv:\n    - billing\n    - send\n    - --to=eu\n    env:\n      \
         TARGET: eu\n    workingDirectory: /srv\n"
    );
    assert_eq!(remarks(&import, Verdict::Mapped), ["job invoices"]);
    let differs = remarks(&import, Verdict::Differs);
    for part in
        ["env PASSWORD", "image billing:1.4", "activeDeadlineSeconds", "label UPPER CASE", "successfulJobs"]
    {
        assert!(differs.iter().any(|text| text.starts_with(part)), "{part}: {differs:?}");
    }
    assert_eq!((differs.len(), import.refused()), (5, 0), "{differs:?}");
}

#[test]
fn what_the_manifest_leaves_open_is_as_the_cluster_has_it() {
    let import = import(
        "kind: List\nitems:\n- kind: CronJob\n  metadata: {name: a}\n  spec:\n    schedule: 'CRON_TZ=Asia/Tokyo 0 9 * * *'\n    \
         suspend: true\n    jobTemplate: {spec: {template: {spec: {containers: [{image: x, command: [y]}]}}}}\n",
    );
    let job = &import.documents[0];
    assert_eq!((job.schedule.as_str(), job.timezone.as_deref()), ("0 9 * * *", Some("Asia/Tokyo")));
    assert_eq!((job.overlap, job.misfire.as_ref()), (Some("ALLOW"), None));
    assert_eq!(job.retry.as_ref().map(|retry| retry.max_attempts), Some(7));
    assert!(remarks(&import, Verdict::Differs).iter().any(|text| text.contains("`escapement pause a`")));
}

#[test]
fn what_can_not_be_one_process_is_refused_with_the_reason() {
    let pod = |pod: &str| {
        format!(
            "kind: CronJob\nmetadata: {{name: a}}\nspec: {{schedule: '@daily', jobTemplate: {{spec: {{template: {{spec: {pod}}}}}}}}}\n"
        )
    };
    for (text, why) in [
        (pod("{containers: [{image: x}]}"), "no command: the entrypoint of the image \"x\""),
        (pod("{containers: [{command: [a]}, {command: [b]}]}"), "2 containers"),
        (pod("{initContainers: [{command: [a]}], containers: [{command: [b]}]}"), "initContainers"),
        (pod("{}"), "spec.jobTemplate.spec.template.spec.containers is empty"),
        (pod("{containers: [{command: [a]}]}").replace("@daily", "0 25 * * *"), "hour 25"),
        (pod("{containers: [{command: [a]}]}").replace("schedule", "plan"), "spec.schedule is missing"),
        ("kind: Deployment\n".to_owned(), "kind Deployment"),
        ("a: b\n".to_owned(), "kind is missing"),
        ("a: [\n".to_owned(), "is not YAML"),
        (
            "kind: CronJob\nspec: {schedule: a, schedule: b}\n".to_owned(),
            "spec.schedule is given more than once",
        ),
    ] {
        let import = import(&text);
        let refused = remarks(&import, Verdict::Refused);
        assert!(refused.len() == 1 && refused[0].starts_with(why), "{text}: {refused:?}");
        assert!(import.documents.is_empty());
    }
}

#[test]
fn names_of_variables_are_expanded_as_in_the_cluster() {
    let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
    for (text, expected) in [
        ("x$(A)y$(A)", "x1y1"),
        ("$(B)", "$(B)"),
        ("$$(A)", "$(A)"),
        ("$(A", "$(A"),
        ("$A ${A}", "$A ${A}"),
        ("é$(A)", "é1"),
    ] {
        assert_eq!(expanded(text, &env), expected, "{text}");
    }
}
