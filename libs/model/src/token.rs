//! Fencing tokens: numbers that rise with each lease, so that a downstream system can refuse an older writer.
//!
//! A token is `epoch << 44 | sequence`. The epoch rises whenever the database may have lost sequence values (a
//! failover, a restore); the sequence rises with each lease. In JSON and HTTP a token is decimal text, because
//! beyond epoch 512 it passes 2^53 and JavaScript and Redis Lua would compare it wrongly.

use serde::{Deserialize, Serialize};

/// Bits that the sequence takes in a token.
pub const SEQUENCE_BITS: u32 = 44;

/// The highest epoch: what remains of a positive 64-bit number above the sequence.
pub const EPOCH_MAX: u32 = (1 << (63 - SEQUENCE_BITS)) - 1;

/// A fencing token; compare with `<`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(i64);

/// A number or text that is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a fencing token: use a positive decimal number below 2^63")]
pub struct InvalidToken(pub String);

impl Token {
    /// The token with this value, as stored.
    ///
    /// # Errors
    /// [`InvalidToken`] when the value is not positive.
    pub fn from_i64(value: i64) -> Result<Self, InvalidToken> {
        if value > 0 { Ok(Self(value)) } else { Err(InvalidToken(value.to_string())) }
    }

    /// The stored value.
    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// The part that rises with each restore or failover of the database.
    pub const fn epoch(self) -> u32 {
        (self.0 >> SEQUENCE_BITS) as u32
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Token {
    type Err = InvalidToken;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let value = text.parse().map_err(|_| InvalidToken(text.to_owned()))?;
        Self::from_i64(value).map_err(|_| InvalidToken(text.to_owned()))
    }
}

impl Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The key whose tokens a downstream system compares: the job when its runs exclude each other, else the run.
pub fn guard_key(exclusive: bool, key: &crate::ids::RunKey) -> String {
    if exclusive { key.job_id.to_string() } else { key.idempotency_key() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_outranks_every_earlier_sequence() {
        let last_of_first = Token((1 << SEQUENCE_BITS) | ((1 << SEQUENCE_BITS) - 1));
        let first_of_second = Token(2 << SEQUENCE_BITS);
        assert!(last_of_first < first_of_second);
        assert_eq!(first_of_second.epoch(), 2);
    }

    #[test]
    fn json_carries_a_token_as_text() {
        let token = Token((600 << SEQUENCE_BITS) | 7);
        let text = serde_json::to_string(&token).expect("a token serialises");
        assert_eq!(text, "\"10555311626649607\"");
        assert_eq!(serde_json::from_str::<Token>(&text).expect("and comes back"), token);
    }

    #[test]
    fn zero_and_negative_numbers_are_no_tokens() {
        assert!(Token::from_i64(0).is_err());
        assert!("-4".parse::<Token>().is_err());
        assert!("12x".parse::<Token>().is_err());
    }
}
