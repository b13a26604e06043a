//! Wrong fields of what was sent, or was to be, as lines for people.

use std::fmt;

/// A field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongField {
    /// Its path, or where it stood; empty for what is said of all.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl fmt::Display for WrongField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

/// What is wrong, under a `head` if there is more to say than the fields do: a single one needs none.
pub fn told(head: Option<&str>, wrong: &[WrongField]) -> String {
    match (head, wrong) {
        (None, [one]) => one.to_string(),
        (head, wrong) => {
            wrong.iter().fold(head.unwrap_or("several fields are wrong").to_owned(), |text, one| {
                format!("{text}\n  {one}")
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_said_in_a_line_and_several_in_a_line_each() {
        let of = |field: &str| WrongField { field: field.to_owned(), message: "x".to_owned() };
        assert_eq!(told(None, &[of("a")]), "a: x");
        assert_eq!(told(None, &[of("a"), of("")]), "several fields are wrong\n  a: x\n  x");
        assert_eq!(told(Some("no"), &[of("a")]), "no\n  a: x");
        assert_eq!(told(Some("no"), &[]), "no");
    }
}
