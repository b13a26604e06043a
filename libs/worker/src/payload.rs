//! A handler's payload, read as the type that the handler names.
//!
//! Invariant: what does not fit is told with the place of the first thing that is wrong. Deliberately doesn't say what
//! follows from that: a typed handler is not started, any other decides for itself.

use serde::de::DeserializeOwned;

/// A payload that is not what the handler expects.
#[derive(Debug, thiserror::Error)]
#[error("the payload of {run} does not fit {expected}{}", at(self.field.as_deref()))]
pub struct PayloadError {
    /// The run's name.
    pub run: String,
    /// The type that was asked for.
    pub expected: &'static str,
    /// Where it is wrong: `customer.addresses[2].city`. None when it is no JSON, or wrong as a whole.
    pub field: Option<String>,
    /// What is wrong there, with line and column.
    #[source]
    pub source: serde_json::Error,
}

fn at(field: Option<&str>) -> String {
    field.map(|field| format!(", at {field}")).unwrap_or_default()
}

/// The JSON text as a `T`; an empty one counts as `null`.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    run_name: impl FnOnce() -> String,
) -> Result<T, PayloadError> {
    let text = if text.is_empty() { "null" } else { text };
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // A question mark stands for what broke off before it had a name.
        let path = error.path().to_string();
        let field = path.trim_end_matches(['.', '?']);
        ((!field.is_empty()).then(|| field.to_owned()), error.into_inner())
    });
    let whole = value.and_then(|value| json.end().map(|()| value).map_err(|error| (None, error)));
    whole.map_err(|(field, source)| PayloadError {
        run: run_name(),
        expected: std::any::type_name::<T>(),
        field,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chain;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Invoice {
        customer: Customer,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Customer {
        number: u32,
    }

    fn error(text: &str) -> PayloadError {
        read::<Invoice>(text, || "invoices@1970-01-01T00:00:00Z".to_owned()).expect_err(text)
    }

    #[test]
    fn what_fits_is_read() {
        let read = read::<Invoice>(r#"{"customer": {"number": 7}, "unknown": 1}"#, String::new);
        assert_eq!(read.expect("valid"), Invoice { customer: Customer { number: 7 } });
    }

    #[test]
    fn what_does_not_fit_is_told_with_run_type_and_field() {
        for (payload, field, says) in [
            (r#"{"customer": {"number": "seven"}}"#, Some("customer.number"), "expected u32"),
            (r#"{"customer": {}}"#, Some("customer"), "missing field `number`"),
            ("", None, "invalid type: null"),
            ("{", None, "EOF"),
            (r#"{"customer": {"number": 7}} and more"#, None, "trailing characters"),
        ] {
            let error = error(payload);
            assert_eq!(error.field.as_deref(), field, "{payload}");
            let text = chain(&error);
            assert!(text.contains("invoices@1970-01-01T00:00:00Z") && text.contains("Invoice"), "{text}");
            assert!(text.contains(says) && text.contains("line 1"), "{text}");
        }
    }
}
