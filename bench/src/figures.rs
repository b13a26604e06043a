//! Percentiles and medians. Pure.

use serde_json::{Value, json};

/// The value that `share` of the sorted values do not exceed; 0 of none.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).or(sorted.last()).copied().unwrap_or(0.0)
}

/// `p50`, `p95`, `p99` and `max`.
pub fn spread(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    json!({
        "p50": rounded(percentile(&values, 0.50)),
        "p95": rounded(percentile(&values, 0.95)),
        "p99": rounded(percentile(&values, 0.99)),
        "max": rounded(values.last().copied().unwrap_or(0.0)),
    })
}

/// To a thousandth.
pub fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// One object like the rounds, with the median of each number; what is no number is the first round's.
pub fn medians(rounds: &[Value]) -> Value {
    let Some(first) = rounds.first() else { return Value::Null };
    match first {
        Value::Object(fields) => fields
            .keys()
            .map(|key| {
                let of: Vec<Value> = rounds.iter().map(|round| round[key].clone()).collect();
                (key.clone(), medians(&of))
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Number(_) => {
            let mut values: Vec<f64> = rounds.iter().filter_map(Value::as_f64).collect();
            values.sort_by(f64::total_cmp);
            json!(percentile(&values, 0.5))
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), 50.0);
        assert_eq!(percentile(&values, 0.99), 99.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert_eq!(percentile(&[], 0.99), 0.0);
    }

    #[test]
    fn the_median_of_rounds_is_taken_number_by_number() {
        let rounds = [3.0, 1.0, 2.0].map(|n| json!({ "a": n, "b": { "c": 10.0 - n }, "of": "words" }));
        assert_eq!(medians(&rounds), json!({ "a": 2.0, "b": { "c": 8.0 }, "of": "words" }));
    }
}
