//! Calls that a client may repeat: the header `Idempotency-Key` of a call, and what the first call with it answered.
//!
//! A key is the caller's, within its tenant and for one method and what that is about. The transaction that does the
//! work keeps the answer, so that there is one with the work or neither.

use crate::failure::{Failure, wrong};
use prost::Message;
use rpc::auth::Caller;
use store::Transaction;
use store::idempotency_key::{self, Begun, Key};
use tonic::Request;

/// The metadata, and REST's header, that holds a key.
const HEADER: &str = "idempotency-key";
/// The longest key, in characters.
const KEY_CHARS_MAX: usize = 255;

/// The key of a request, if it has one.
///
/// # Errors
/// When it can't be a key.
pub fn key<T>(request: &Request<T>) -> Result<Option<String>, Failure> {
    let Some(value) = request.metadata().get(HEADER) else { return Ok(None) };
    match value.to_str() {
        Ok(key) if (1..=KEY_CHARS_MAX).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => Err(wrong(HEADER, format!("is no key: use 1 to {KEY_CHARS_MAX} printable ASCII characters"))),
    }
}

/// A call that may be repeated, if it has a key.
#[derive(Debug, Clone)]
pub struct Call {
    caller: Caller,
    /// The method and what it is about.
    route: String,
    key: Option<String>,
    /// What is asked for.
    body: Vec<u8>,
}

impl Call {
    /// The call of `route` that asks for `body`.
    pub fn new(caller: &Caller, route: String, key: Option<String>, body: &impl Message) -> Self {
        Self { caller: caller.clone(), route, key, body: body.encode_to_vec() }
    }

    fn stored(&self) -> Option<Key<'_>> {
        let (tenant, caller) = (self.caller.tenant_id, self.caller.token_name.as_str());
        self.key.as_deref().map(|key| Key { tenant, caller, route: &self.route, key })
    }

    /// Begins the call, before any other lock of the transaction. An answer means that it was made before, and that
    /// there is nothing to do.
    ///
    /// # Errors
    /// [`Failure::KeyUsed`] when the key was used to ask for something else.
    pub async fn begin<A: Message + Default>(&self, tx: &Transaction<'_>) -> Result<Option<A>, Failure> {
        let Some(key) = self.stored() else { return Ok(None) };
        match idempotency_key::begin(tx, &key, &self.body).await? {
            Begun::First => Ok(None),
            Begun::Other => Err(Failure::KeyUsed { key: key.key.to_owned() }),
            Begun::Repeated(answer) => {
                let unreadable = |error: prost::DecodeError| store::StoreError::Corrupt {
                    what: "idempotency_key.answer",
                    problem: error.to_string(),
                };
                Ok(Some(A::decode(answer.as_slice()).map_err(unreadable)?))
            }
        }
    }

    /// Keeps the answer; the transaction then commits.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn answer(&self, tx: &Transaction<'_>, answer: &impl Message) -> Result<(), Failure> {
        if let Some(key) = self.stored() {
            idempotency_key::answer(tx, &key, &answer.encode_to_vec()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::metadata::MetadataValue;

    #[test]
    fn a_key_is_short_text_of_ascii() {
        let with = |value: &[u8]| {
            let mut request = Request::new(());
            let value = MetadataValue::try_from(value).expect("a header's value");
            request.metadata_mut().insert(HEADER, value);
            key(&request).ok()
        };
        assert_eq!(key(&Request::new(())).ok(), Some(None));
        assert_eq!(with(b"order 66"), Some(Some("order 66".to_owned())));
        assert_eq!(with(&[b'k'; KEY_CHARS_MAX]).map(|key| key.map(|key| key.len())), Some(Some(255)));
        for none in [&[b'k'; KEY_CHARS_MAX + 1][..], b"", "schlüssel".as_bytes()] {
            assert_eq!(with(none), None);
        }
    }
}
