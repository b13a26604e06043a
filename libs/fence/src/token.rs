//! What a write carries: the token and the key under which it is compared.

use std::fmt;
use std::str::FromStr;

/// The most bytes of a guard key. Escapement's have 36 (a job) to 67 (a run).
pub const GUARD_KEY_MAX_BYTES: usize = 200;

/// A number that rises with each newer attempt under one guard key; compare with `<`.
///
/// Positive and below 2^63. As text it is decimal, without sign or leading zeros, so that two texts can be compared
/// by their length and then by their letters where numbers are inexact beyond 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(i64);

/// A number or text that is no fencing token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no fencing token: use a positive decimal number below 2^63, without sign or leading zeros")]
pub struct InvalidToken(pub String);

impl FencingToken {
    /// The token of this value.
    ///
    /// # Errors
    /// [`InvalidToken`] when the value is not positive.
    pub fn from_i64(value: i64) -> Result<Self, InvalidToken> {
        if value > 0 { Ok(Self(value)) } else { Err(InvalidToken(value.to_string())) }
    }

    /// Its value, for a `bigint` parameter.
    pub const fn as_i64(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = InvalidToken;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidToken(text.to_owned());
        let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        let value = if canonical { text.parse().map_err(|_| invalid())? } else { return Err(invalid()) };
        Self::from_i64(value).map_err(|_| invalid())
    }
}

/// What tokens are compared under: the job when its runs exclude each other, else the run.
///
/// 1 to [`GUARD_KEY_MAX_BYTES`] bytes of visible ASCII.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GuardKey(String);

/// A text that is no guard key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no guard key: use 1 to {GUARD_KEY_MAX_BYTES} visible ASCII characters without spaces")]
pub struct InvalidGuardKey(pub String);

impl GuardKey {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GuardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for GuardKey {
    type Err = InvalidGuardKey;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = (1..=GUARD_KEY_MAX_BYTES).contains(&text.len());
        if length && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidGuardKey(text.chars().take(GUARD_KEY_MAX_BYTES).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_escapement_writes_it() {
        for value in [1, 17_592_186_044_418, (1 << 53) + 1, i64::MAX] {
            let written = model::token::Token::from_i64(value).expect("positive").to_string();
            assert_eq!(written.parse::<FencingToken>().map(FencingToken::as_i64), Ok(value));
        }
    }

    #[test]
    fn a_text_that_others_would_compare_differently_is_refused() {
        for text in ["", "0", "007", "+7", "-7", " 7", "7 ", "7.0", "7e3", "0x7", "٧", "9223372036854775808"]
        {
            assert_eq!(text.parse::<FencingToken>(), Err(InvalidToken(text.to_owned())));
        }
        assert!(FencingToken::from_i64(0).is_err());
    }

    #[test]
    fn both_kinds_of_guard_key_are_accepted() {
        let run = model::ids::RunKey::new(model::ids::JobId::random(), Default::default());
        for exclusive in [true, false] {
            let key = model::token::guard_key(exclusive, &run);
            assert_eq!(key.parse::<GuardKey>().map(|parsed| parsed.to_string()), Ok(key));
        }
    }

    #[test]
    fn a_guard_key_that_could_be_mistaken_for_another_is_refused() {
        let long = "k".repeat(GUARD_KEY_MAX_BYTES + 1);
        for text in ["", "a b", "a\n", "clé", &long] {
            assert!(text.parse::<GuardKey>().is_err(), "{text:?}");
        }
        assert!(long[1..].parse::<GuardKey>().is_ok());
    }
}
