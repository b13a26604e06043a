//! The mark: what etcd remembers of the database's fencing tokens, so that they never fall.
//!
//! A database that was restored or failed over may have forgotten tokens that workers already carry. etcd, which
//! was not restored with it, knows better. This module only reads the mark and replaces it by compare-and-set;
//! when a new epoch is due is decided elsewhere.

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::ElectionError;

/// The state of the tokens when it was last written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Which database cluster (PostgreSQL's system identifier).
    pub system_identifier: String,
    /// Its timeline, which a failover or restore changes.
    pub timeline: u32,
    /// The epoch in use.
    pub epoch: u32,
    /// No token handed out before the mark was written is higher.
    #[serde(with = "decimal_text")]
    pub highest_token: i64,
}

/// The mark and the revision of its last change, for [`write_if`]; `None` when there is none yet.
///
/// # Errors
/// A doubt, or [`ElectionError::Corrupt`]: then no epoch is safe.
pub async fn read(client: &Client) -> Result<Option<(Mark, i64)>, ElectionError> {
    let key = client.keys().epoch();
    let read = client
        .ask("reading the mark", |mut etcd| {
            let key = key.clone();
            async move { etcd.get(key, None).await }
        })
        .await?;
    let Some(found) = read.kvs().first() else { return Ok(None) };
    let mark =
        serde_json::from_slice(found.value()).map_err(|source| ElectionError::Corrupt { key, source })?;
    Ok(Some((mark, found.mod_revision())))
}

/// Writes the mark if it has not changed since revision `expected` (`None`: if there is none). `false` means
/// that somebody else wrote: read again and decide anew.
///
/// # Errors
/// A doubt leaves open whether it was written: read again, too.
pub async fn write_if(client: &Client, expected: Option<i64>, mark: &Mark) -> Result<bool, ElectionError> {
    let key = client.keys().epoch();
    let value =
        serde_json::to_vec(mark).map_err(|source| ElectionError::Encode { key: key.clone(), source })?;
    // A key that does not exist has modification revision 0.
    let unchanged = Compare::mod_revision(key.as_str(), CompareOp::Equal, expected.unwrap_or(0));
    let write = Txn::new().when([unchanged]).and_then([TxnOp::put(key, value, None)]);
    // Asked once: a repetition after a lost answer would find its own change and take it for somebody else's.
    let answer = client.call("writing the mark", |mut etcd| async move { etcd.txn(write).await }).await?;
    Ok(answer.succeeded())
}

/// Tokens as text, as everywhere in JSON: they outgrow the numbers of many readers.
mod decimal_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(value: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_text() {
        let mark =
            Mark { system_identifier: "72".into(), timeline: 1, epoch: 600, highest_token: (600 << 44) | 7 };
        let json = serde_json::to_string(&mark).expect("encodes");
        assert!(json.contains(r#""highest_token":"10555311626649607""#), "{json}");
        assert_eq!(serde_json::from_str::<Mark>(&json).expect("decodes"), mark);
    }
}
