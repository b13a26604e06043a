//! Keeps a job's secrets out of what its work writes. Pure.
//!
//! Secrets are the values of the definition whose names look like one: of variables and arguments for a process, of
//! headers and parameters for a call. Invariant: a secret is found however the output is cut into pieces, as it is,
//! percent-encoded, or inside a base64. Out of reach: what else the work makes of a secret, and what it reads elsewhere.

use model::job::{Exec, Http};
use std::sync::Arc;

mod find;

/// What is shown instead.
const SHOWN: &[u8] = b"***";

/// The secrets of one definition.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Arc<[Vec<u8>]>);

impl Secrets {
    /// Those of a process.
    pub fn of_process(exec: &Exec) -> Self {
        Self::new(&find::of_process(exec))
    }

    /// Those of a call.
    pub fn of_call(http: &Http) -> Self {
        Self::new(&find::of_call(http))
    }

    fn new(values: &[String]) -> Self {
        let mut secrets: Vec<Vec<u8>> = values.iter().flat_map(|value| find::forms(value)).collect();
        // The longest first: a secret may begin with another.
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self(secrets.into())
    }

    /// A text without them.
    pub fn text(&self, text: &str) -> String {
        let mut redactor = Redactor::new(self.clone());
        let mut clean = redactor.push(text.as_bytes());
        clean.extend(redactor.finish());
        String::from_utf8_lossy(&clean).into_owned()
    }
}

/// Takes secrets out of a stream.
#[derive(Debug)]
pub struct Redactor {
    secrets: Secrets,
    /// The beginning of a secret, perhaps.
    held: Vec<u8>,
}

impl Redactor {
    /// Of these.
    pub const fn new(secrets: Secrets) -> Self {
        Self { secrets, held: Vec::new() }
    }

    /// The next piece; what may be the beginning of a secret comes with a later one.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.secrets.0.is_empty() {
            return bytes.to_vec();
        }
        self.held.extend_from_slice(bytes);
        self.pass(false)
    }

    /// What is left at the end.
    pub fn finish(&mut self) -> Vec<u8> {
        self.pass(true)
    }

    fn pass(&mut self, all: bool) -> Vec<u8> {
        let mut clean = Vec::with_capacity(self.held.len());
        let mut at = 0;
        while let Some(rest) = self.held.get(at..).filter(|rest| !rest.is_empty()) {
            let begins = |secret: &&Vec<u8>| secret.len() > rest.len() && secret.starts_with(rest);
            if !all && self.secrets.0.iter().any(|secret| begins(&secret)) {
                break;
            }
            match self.secrets.0.iter().find(|secret| rest.starts_with(secret)) {
                Some(secret) => {
                    clean.extend_from_slice(SHOWN);
                    at += secret.len();
                }
                None => {
                    clean.push(rest[0]);
                    at += 1;
                }
            }
        }
        self.held.drain(..at);
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[(&str, &str)]) -> Secrets {
        let env = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Secrets::of_process(&Exec { env, ..Exec::default() })
    }

    fn call(url: &str) -> Http {
        Http {
            method: "GET".to_owned(),
            url: url.to_owned(),
            headers: [("X-Api-Key".to_owned(), "k-123456".to_owned())].into(),
            body: String::new(),
            timeout: std::time::Duration::ZERO,
            expected_status: Vec::new(),
            secret_headers: Vec::new(),
        }
    }

    fn streamed(secrets: &Secrets, pieces: &[&str]) -> String {
        let mut redactor = Redactor::new(secrets.clone());
        let mut clean: Vec<u8> = pieces.iter().flat_map(|piece| redactor.push(piece.as_bytes())).collect();
        clean.extend(redactor.finish());
        String::from_utf8(clean).expect("text")
    }

    #[test]
    fn only_values_whose_names_look_like_secrets_are_hidden() {
        let secrets = secrets(&[
            ("DB_PASSWORD", "hunter22"),
            ("Api-Key", "k-123456"),
            ("Authorization", "Bearer abc.def"),
            ("TOKEN", "x"),
            ("REGION", "eu-west-1"),
        ]);
        let text = "hunter22 k-123456 Bearer abc.def abc.def x eu-west-1";
        assert_eq!(secrets.text(text), "*** *** *** *** x eu-west-1");
    }

    #[test]
    fn a_secret_is_found_however_it_is_cut() {
        let secrets = secrets(&[("SECRET", "swordfish")]);
        let text = "a swordfish, swordswordfish, sword";
        let expected = "a ***, sword***, sword";
        for width in 1..text.len() {
            let pieces: Vec<&str> = (0..text.len())
                .step_by(width)
                .map(|from| &text[from..(from + width).min(text.len())])
                .collect();
            assert_eq!(streamed(&secrets, &pieces), expected, "in pieces of {width}");
        }
    }

    #[test]
    fn a_secret_is_hidden_in_the_forms_that_programs_write() {
        let secrets = secrets(&[("PASSWORD", "sword/fish")]);
        let text = "sword/fish, sword%2Ffish, basic dXNlcjpzd29yZC9maXNo";
        assert_eq!(secrets.text(text), "***, ***, basic dXNlcjp***");
    }

    #[test]
    fn parameters_and_headers_of_a_call_are_hidden() {
        let call = Secrets::of_call(&call("https://billing.example/run?token=swordfish&region=eu-west"));
        assert_eq!(call.text("k-123456 swordfish eu-west"), "*** *** eu-west");
    }

    #[test]
    fn what_an_address_has_encoded_is_hidden_as_it_is_read_too() {
        let url = "https://app:pa%24%24word@billing.example/?to%6ben=sword%2Ffi%2bsh+x&q=a%20b";
        let call = Secrets::of_call(&call(url));
        let echoed = "sword%2Ffi%2bsh+x, sword/fi+sh+x, sword/fi+sh x, sword%2ffi%2bsh%20x, pa$$word, pa%24%24word, a b";
        assert_eq!(call.text(echoed), "***, ***, ***, ***, ***, ***, a b");
        let argv = vec!["curl".to_owned(), url.to_owned()];
        let process = Secrets::of_process(&Exec { argv, ..Exec::default() });
        assert_eq!(process.text(echoed), "***, ***, ***, ***, ***, ***, a b");
    }

    #[test]
    fn of_secrets_that_begin_alike_nothing_is_left_over() {
        let secrets = secrets(&[("TOKEN_A", "abcd"), ("TOKEN_B", "abcdefgh")]);
        assert_eq!(streamed(&secrets, &["abcd", "efgh abcd"]), "*** ***");
        assert_eq!(streamed(&secrets, &["abcdef"]), "***ef");
    }

    #[test]
    fn without_secrets_everything_passes_at_once() {
        let mut redactor = Redactor::new(Secrets::default());
        assert_eq!(redactor.push(b"anything"), b"anything");
    }
}
