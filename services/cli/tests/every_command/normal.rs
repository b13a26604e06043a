//! What differs from one run of the test to the next, put in the place of one that does not. Widths stay where columns are.

use regex::Regex;
use std::sync::LazyLock;

/// What definitions say lies from this year on; all before it is the time of this run of the test.
const FROZEN_YEAR: &str = "2090";

static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(\d{4})-\d\d-\d\d([T ]\d\d:\d\d:\d\d(?:\.\d+)?(Z|\+00:00)?)?").expect("a sound pattern")
});

/// Whatever is given an identity is given another one each time, but for those of the stage, which begin with eight zeros.
static IDENTITY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b").expect("a sound pattern")
});

/// What is found, and what stands there instead.
static OTHERS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let all = [
        (r"/v1/checkins/[\w-]{16,}", "/v1/checkins/TOKEN"),
        (r"\besc_[\w-]{20,}", "esc_SECRET"),
        (r"\besc_[\w-]{8}", "esc_abcd1234"),
        (r"127\.0\.0\.1:\d{4,5}", "127.0.0.1:8080"),
        (r"\b[\d.]+ (?:bytes|KiB|MiB) in \d+ days", "16.0 MiB in 3 days"),
        (r#""bytes": "\d+""#, r#""bytes": "16777216""#),
        (r"(?m)^  bytes: '\d+'", "  bytes: '16777216'"),
        (r#""days": \d+"#, r#""days": 4"#),
        (r"(?m)^  days: \d+", "  days: 4"),
        (r"is at version \d+", "is at version 18"),
        (r#""version": \d+"#, r#""version": 18"#),
        (r"(?m)^version: \d+", "version: 18"),
        (r"\b\d{18,19}\b", "7000000000000000000"),
        (r"\b20\d\d[a-z]\b", "2026a"),
        (r"\b00-[0-9a-f]{32}-[0-9a-f]{16}-0\d\b", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    all.map(|(pattern, instead)| (Regex::new(pattern).expect("a sound pattern"), instead)).into()
});

/// `text` as it always is. `fixed` are texts of this run, and what stands for each.
pub fn text(text: &str, fixed: &[(String, &str)]) -> String {
    let mut text = text.to_owned();
    for (found, instead) in fixed {
        text = text.replace(found, instead);
    }
    let identity = |found: &regex::Captures<'_>| match &found[0] {
        staged if staged.starts_with("00000000-") => staged.to_owned(),
        _ => "5f0c0a52-8d51-4c8e-9d5b-2f6a3f1c7e10".to_owned(),
    };
    text = IDENTITY.replace_all(&text, identity).into_owned();
    for (pattern, instead) in OTHERS.iter() {
        text = pattern.replace_all(&text, *instead).into_owned();
    }
    let time = |found: &regex::Captures<'_>| match (&found[1] >= FROZEN_YEAR, found.get(2)) {
        (true, _) => found[0].to_owned(),
        (false, None) => "2026-01-02".to_owned(),
        (false, Some(_)) => {
            format!("2026-01-02{}03:04:05{}", &found[2][..1], found.get(3).map_or("", |zone| zone.as_str()))
        }
    };
    TIME.replace_all(&text, time).into_owned()
}

#[test]
fn what_moves_is_put_in_the_place_of_what_does_not() {
    let of = |found: &str| text(found, &[]);
    assert_eq!(of("at 2026-11-29T09:00:00.123456Z."), "at 2026-01-02T03:04:05Z.");
    assert_eq!(of("2090-01-01T09:00:00Z"), "2090-01-01T09:00:00Z");
    assert_eq!(of("since 2026-11-29"), "since 2026-01-02");
    assert_eq!(of("00000000-0000-4000-8000-000000000001"), "00000000-0000-4000-8000-000000000001");
    for moving in ["c0ffee00-0000-4000-8000-000000000001", "0000000a-0000-4000-8000-000000000001"] {
        assert_eq!(of(moving), "5f0c0a52-8d51-4c8e-9d5b-2f6a3f1c7e10");
    }
    assert_eq!(of("http://127.0.0.1:41234/"), "http://127.0.0.1:8080/");
}
