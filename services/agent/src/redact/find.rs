//! Which texts of a definition are secrets, and the forms in which work may write them. Pure.

use model::job::{Exec, Http};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Shorter values would be found everywhere.
const BYTES_MIN: usize = 4;
/// The same for pieces of an encoding.
const ENCODED_MIN: usize = 6;
/// Parts of names that secrets have.
const NAMES: [&str; 5] = ["password", "token", "secret", "key", "authorization"];
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Whether a value of this name is one.
fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    NAMES.iter().any(|part| name.contains(part))
}

/// Those of a process: variables, and what its arguments name.
pub fn of_process(exec: &Exec) -> Vec<String> {
    let words = if exec.shell.is_empty() { exec.argv.clone() } else { words(&exec.shell) };
    let variables = exec.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let named = variables.filter(|(name, _)| is_secret(name)).map(|(_, value)| value.to_owned());
    named.chain(of_words(&words)).collect()
}

/// Those of a call: headers, and parameters of its address.
pub fn of_call(http: &Http) -> Vec<String> {
    let headers = http.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let secret = |name: &str| is_secret(name) || http.is_secret(name);
    let headers = headers.filter(|(name, _)| secret(name)).map(|(_, value)| value.to_owned());
    let query = http.url.split_once('?').map_or("", |(_, query)| query);
    let query = of_query(query, secret);
    let password = password_of(&http.url).into_iter().flat_map(as_read);
    headers.chain(query).chain(password).collect()
}

/// The parameters of an address that `secret` names.
fn of_query(query: &str, secret: impl Fn(&str) -> bool) -> Vec<String> {
    let pairs = query.split('#').next().unwrap_or_default().split('&');
    let named = pairs.filter_map(|pair| pair.split_once('=')).filter(|(name, _)| secret(&decoded(name)));
    named.flat_map(|(_, value)| as_read(value)).collect()
}

/// A value of an address as it stands there, and as whoever reads the address understands it: in a query `+` may be a blank.
fn as_read(value: &str) -> Vec<String> {
    let mut readings = vec![value.to_owned(), decoded(value), decoded(&value.replace('+', " "))];
    readings.dedup();
    readings
}

/// What percent-encoding stands for.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The password of an address's user.
fn password_of(url: &str) -> Option<&str> {
    let (user, _) = url.split_once("://")?.1.split(['/', '?', '#']).next()?.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

/// What everybody sees who lists processes: `--password=x`, `--token x`, `API_KEY=x`, `Authorization: x`, and what an
/// address has for its user's password.
fn of_words(words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if let Some((_, value)) = word.split_once(['=', ':']).filter(|(name, _)| is_secret(name)) {
            found.push(value.to_owned());
        } else if word.starts_with('-') && is_secret(word) {
            found.extend(words.get(index + 1).filter(|next| !next.starts_with('-')).cloned());
        }
        found.extend(password_of(word).into_iter().flat_map(as_read));
        let query = word.split_once("://").and_then(|(_, rest)| rest.split_once('?'));
        found.extend(query.into_iter().flat_map(|(_, query)| of_query(query, is_secret)));
    }
    // What the shell puts in for a variable is found by the variable.
    found.retain(|value| !value.trim_start().starts_with('$'));
    found
}

/// The words of a line for the shell, near enough: quotes hold blanks together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')') => {
                words.push(std::mem::take(&mut word));
            }
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The forms of a secret: as it is, percent-encoded, and what is sure to be in a base64 of any text that has it. Of one
/// such as `Bearer abc`, what follows the blank is a secret too.
pub fn forms(secret: &str) -> Vec<Vec<u8>> {
    let whole = secret.trim();
    let parts = [Some(whole), whole.split_once(' ').map(|(_, rest)| rest.trim())];
    let parts = parts.into_iter().flatten().filter(|part| part.len() >= BYTES_MIN);
    let all = parts.flat_map(|part| {
        let bytes = part.as_bytes();
        let percent = [percent(bytes, "%20", false), percent(bytes, "%20", true), percent(bytes, "+", false)];
        let base64 = [STANDARD, FOR_URLS].map(|alphabet| (0..3).map(move |at| base64(bytes, at, alphabet)));
        let encoded = base64.into_iter().flatten().filter(|form| form.len() >= ENCODED_MIN);
        [bytes.to_vec()].into_iter().chain(percent).chain(encoded).collect::<Vec<_>>()
    });
    all.collect()
}

fn percent(bytes: &[u8], blank: &str, lower: bool) -> Vec<u8> {
    let encode = |byte: &u8| -> Cow<'_, str> {
        match *byte {
            b' ' => blank.to_owned().into(),
            plain if plain.is_ascii_alphanumeric() || b"-._~".contains(&plain) => {
                char::from(plain).to_string().into()
            }
            other if lower => format!("%{other:02x}").into(),
            other => format!("%{other:02X}").into(),
        }
    };
    bytes.iter().flat_map(|byte| encode(byte).into_owned().into_bytes()).collect()
}

/// The digits that depend on `bytes` alone when these stand `at` bytes after the beginning of a group of three.
fn base64(bytes: &[u8], at: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let padded: Vec<u8> = std::iter::repeat_n(0, at).chain(bytes.iter().copied()).collect();
    let bits = padded.len() * 8;
    let digit = |index: usize| {
        let value = (0..6).fold(0_usize, |value, bit| {
            let place = index * 6 + bit;
            let byte = padded.get(place / 8).copied().unwrap_or(0);
            value << 1 | usize::from(byte >> (7 - place % 8) & 1)
        });
        alphabet[value]
    };
    // The first whole digit after what stands before, to the last one that needs nothing of what follows.
    ((at * 8).div_ceil(6)..bits / 6).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(argv: &[&str], shell: &str) -> Exec {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        Exec { argv, shell: shell.to_owned(), ..Exec::default() }
    }

    #[test]
    fn what_arguments_name_as_a_secret_is_one() {
        let argv =
            ["curl", "-H", "Authorization: Bearer abc.def", "--password=hunter2", "--api-key", "k-123", "-v"];
        assert_eq!(of_process(&exec(&argv, "")), [" Bearer abc.def", "hunter2", "k-123"]);
        let line =
            "DB_PASSWORD=hunter2 psql postgres://app:swordfish@db/app; curl -H 'X-Token: t-123' --key $KEY";
        assert_eq!(of_process(&exec(&[], line)), ["hunter2", "swordfish", " t-123"]);
        assert_eq!(of_process(&exec(&["backup", "--region", "eu", "a:b@c"], "")), Vec::<String>::new());
    }

    #[test]
    fn base64_is_as_everybody_writes_it() {
        assert_eq!(base64(b"any carnal pleas", 0, STANDARD), b"YW55IGNhcm5hbCBwbGVhc");
        assert_eq!(base64(b"\xfb\xff\xfe", 0, STANDARD), b"+//+");
        assert_eq!(base64(b"\xfb\xff\xfe", 0, FOR_URLS), b"-__-");
    }

    #[test]
    fn a_secret_is_in_the_base64_of_whatever_has_it() {
        // user:swordfish, xuser:swordfish, xyuser:swordfish, each followed by more.
        for text in ["dXNlcjpzd29yZGZpc2g=", "eHVzZXI6c3dvcmRmaXNo", "eHl1c2VyOnN3b3JkZmlzaCE="] {
            let found = |form: &Vec<u8>| text.as_bytes().windows(form.len()).any(|window| window == form);
            assert!(forms("swordfish").iter().any(found), "{text}");
        }
    }

    #[test]
    fn both_spellings_of_percent_encoding_are_known() {
        let forms = forms("pä ss/word");
        for form in ["pä ss/word", "p%C3%A4%20ss%2Fword", "p%c3%a4%20ss%2fword", "p%C3%A4+ss%2Fword"] {
            assert!(forms.contains(&form.as_bytes().to_vec()), "{form}");
        }
    }
}
