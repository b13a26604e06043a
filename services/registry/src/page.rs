//! Pages of lists: how many, from where.

use crate::failure::{Failure, wrong};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Items of a page when the caller does not say.
const SIZE_DEFAULT: usize = 100;
/// Items of a page at most.
const SIZE_MAX: usize = 1_000;

/// How many items the caller wants.
///
/// # Errors
/// [`Failure::Invalid`] for a number that is out of range.
pub fn size(asked: i32) -> Result<usize, Failure> {
    match usize::try_from(asked) {
        Ok(0) => Ok(SIZE_DEFAULT),
        Ok(size @ 1..=SIZE_MAX) => Ok(size),
        _ => Err(wrong("pageSize", format!("{asked}: use 1 to {SIZE_MAX}, or 0 for {SIZE_DEFAULT}"))),
    }
}

/// The token of the page that follows the item with the key `last`. Callers may not read anything into it.
pub fn token(last: &str) -> String {
    URL_SAFE_NO_PAD.encode(last)
}

/// The key in a token; none for the first page.
///
/// # Errors
/// [`Failure::Invalid`] for a token that none of our answers held.
pub fn last_key(token: &str) -> Result<Option<String>, Failure> {
    if token.is_empty() {
        return Ok(None);
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let key = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|key| !key.contains('\0'));
    key.map(Some).ok_or_else(bad_token)
}

/// The token of the page that follows the item with the key `last` of the list that `filter` describes: it counts for no
/// other one.
pub fn token_of(filter: &str, last: &str) -> String {
    token(&format!("{:016x}{last}", fingerprint(filter)))
}

/// The key in a token of the list that `filter` describes; none for the first page.
///
/// # Errors
/// [`Failure::Invalid`] for a token that none of our answers held, or that one with another filter did.
pub fn last_key_of(filter: &str, token: &str) -> Result<Option<String>, Failure> {
    let Some(key) = last_key(token)? else { return Ok(None) };
    let (mark, key) = key.split_at_checked(16).ok_or_else(bad_token)?;
    match u64::from_str_radix(mark, 16) {
        Ok(mark) if mark == fingerprint(filter) => Ok(Some(key.to_owned())),
        Ok(_) => Err(wrong("pageToken", "is of a list with other filters: begin that one without a token")),
        Err(_) => Err(bad_token()),
    }
}

/// FNV-1a: the same on every registry.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A token that none of our answers held.
pub fn bad_token() -> Failure {
    wrong("pageToken", "is not one that an answer held: use nextPageToken of the previous page, or none")
}

/// Cuts `items`, asked for with one more than `size`, to a page; its last item, when more follow.
pub fn cut<T>(items: &mut Vec<T>, size: usize) -> Option<&T> {
    let more = items.len() > size;
    items.truncate(size);
    if more { items.last() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_default_and_a_limit() {
        assert!(matches!(size(0), Ok(100)));
        assert!(matches!(size(1_000), Ok(1_000)));
        assert!(size(1_001).is_err() && size(-1).is_err());
    }

    #[test]
    fn tokens_come_back_and_others_are_refused() {
        assert_eq!(last_key(&token("invoices")).expect("ours").as_deref(), Some("invoices"));
        assert_eq!(last_key("").expect("the first page"), None);
        assert!(last_key("not ours!").is_err());
    }

    #[test]
    fn a_token_counts_for_the_list_that_it_is_of() {
        let token = token_of("queue=a", "invoices");
        assert_eq!(last_key_of("queue=a", &token).expect("ours").as_deref(), Some("invoices"));
        assert_eq!(last_key_of("queue=a", "").expect("the first page"), None);
        assert!(last_key_of("queue=b", &token).is_err());
        assert!(last_key_of("queue=a", &super::token("invoices")).is_err());
    }

    #[test]
    fn a_last_item_is_named_only_when_more_follow() {
        let mut items = vec![1, 2, 3];
        assert_eq!(cut(&mut items, 2), Some(&2));
        assert_eq!(items, [1, 2]);
        assert_eq!(cut(&mut items, 2), None);
    }
}
