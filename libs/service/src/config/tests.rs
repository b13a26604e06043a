use super::*;
use secrecy::ExposeSecret;
use std::ffi::OsString;

crate::settings! {
    /// An example.
    struct Example {
        /// How far, in milliseconds.
        lookahead_ms: u64 = 60_000,
        /// Whether it beeps.
        beep: bool = false,
        /// Where, as a
        /// list.
        places: List = List::default(),
    }
}

impl Validate for Example {
    fn validate(&self, _: &Common) -> Vec<Problem> {
        let short = self.lookahead_ms < 1_000;
        short.then(|| Problem::new("lookahead_ms", "use at least 1000")).into_iter().collect()
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// A file that goes with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("escapement-config-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("the file is written");
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn problems(file: Option<&str>, environment: &[(&str, &str)]) -> Vec<String> {
    let name = std::thread::current().name().unwrap_or("test").replace("::", "-");
    let file = file.map(|text| File::new(&name, text));
    let loaded = load_from::<Example>(file.as_ref().map(|file| file.0.as_path()), variables(environment));
    match loaded {
        Err(ConfigError::Invalid(problems)) => {
            problems.into_iter().map(|problem| problem.to_string()).collect()
        }
        other => panic!("expected problems, got {other:?}"),
    }
}

#[test]
fn the_environment_overrides_the_file_and_the_file_the_defaults() {
    let file = File::new("order", "lookahead_ms = 5000\ncell = \"blue\"\nplaces = [\"a\", \"b\"]\n");
    let environment =
        variables(&[("ESCAPEMENT_LOOKAHEAD_MS", "7000"), ("ESCAPEMENT_BEEP", "true"), ("HOME", "/")]);
    let (common, own) = load_from::<Example>(Some(&file.0), environment).expect("it loads");
    assert_eq!((common.cell.as_str(), own.lookahead_ms, own.beep), ("blue", 7_000, true));
    assert_eq!(own.places.0, ["a", "b"]);
    assert_eq!(common.drain_ms, 30_000);
}

#[test]
fn lists_are_separated_by_commas_in_the_environment() {
    let environment = variables(&[("ESCAPEMENT_ETCD_ENDPOINTS", "http://a:1, http://b:2")]);
    let (common, _) = load_from::<Example>(None, environment).expect("it loads");
    assert_eq!(common.etcd_endpoints.0, ["http://a:1", "http://b:2"]);
}

#[test]
fn numbers_stay_text_where_text_is_meant() {
    let (common, _) = load_from::<Example>(None, variables(&[("ESCAPEMENT_NAME", "007")])).expect("it loads");
    assert_eq!(common.name, "007");
}

#[test]
fn an_unknown_name_is_an_error_that_names_it() {
    let found = problems(Some("lookahead = 5\n"), &[("ESCAPEMENT_LOOKAHED_MS", "5")]);
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("lookahead: is no setting"), "{found:?}");
    assert!(found[1].contains("ESCAPEMENT_LOOKAHED_MS"), "{found:?}");
}

#[test]
fn every_value_of_a_wrong_type_is_named_at_once() {
    let found = problems(Some("beep = \"loud\"\n"), &[("ESCAPEMENT_LOOKAHEAD_MS", "soon")]);
    assert!(found[0].starts_with("lookahead_ms: invalid type: string \"soon\""), "{found:?}");
    assert!(found[1].starts_with("beep: invalid type"), "{found:?}");
}

#[test]
fn checks_of_both_groups_are_reported_together() {
    let found = problems(None, &[("ESCAPEMENT_CELL", "Blue"), ("ESCAPEMENT_LOOKAHEAD_MS", "5")]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("cell: \"Blue\""), "{found:?}");
    assert!(found[1].starts_with("lookahead_ms: use at least"), "{found:?}");
}

#[test]
fn variables_that_are_no_settings_are_left_alone() {
    let environment = variables(&[
        ("ESCAPEMENT_TOKEN", "x"),
        ("ESCAPEMENT_RUN_ID", "x"),
        ("ESCAPEMENT_REGISTRY_SERVICE_HOST", "10.0.0.1"),
        ("ESCAPEMENT_REGISTRY_SERVICE_PORT_HTTP", "80"),
        ("ESCAPEMENT_REGISTRY_PORT", "tcp://10.0.0.1:80"),
        ("ESCAPEMENT_REGISTRY_PORT_80_TCP_ADDR", "10.0.0.1"),
    ]);
    load_from::<Example>(None, environment).expect("none of them is a setting");
}

#[test]
fn a_secret_may_come_from_a_file_but_not_twice_and_is_never_shown() {
    let file = File::new("secret", "postgres://u:hunter2@h/d\n");
    let path = file.0.display().to_string();
    let (common, _) =
        load_from::<Example>(None, variables(&[("ESCAPEMENT_DATABASE_URL_FILE", &path)])).expect("ok");
    assert_eq!(common.database_url().expect("set").expose_secret(), "postgres://u:hunter2@h/d");
    assert!(!format!("{common:?}").contains("hunter2"));
    let found = problems(None, &[("ESCAPEMENT_DATABASE_URL_FILE", &path), ("ESCAPEMENT_DATABASE_URL", "x")]);
    assert!(found[0].contains("database_url_file: use one"), "{found:?}");
}

#[test]
fn a_missing_file_is_an_error_that_names_it() {
    let error =
        load_from::<Example>(Some(Path::new("/nowhere/x.toml")), variables(&[])).expect_err("no such file");
    assert!(error.to_string().contains("/nowhere/x.toml"));
}

#[test]
fn settings_describe_themselves_with_default_and_variable() {
    let described = Example::describe();
    assert_eq!(described[0].about, "How far, in milliseconds.");
    assert_eq!(described[0].default, "60000");
    assert_eq!(described[0].variable(), "ESCAPEMENT_LOOKAHEAD_MS");
    assert_eq!(described[2].about, "Where, as a list.");
}
