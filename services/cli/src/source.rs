//! The text of files that are named in arguments, and of standard input.
//!
//! Invariant: no more is read of one than a registry takes at once, whatever the file is. Deliberately not here: what the
//! text means.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Of one file: what a registry takes in one request at most, its `request_bytes_max`, unless it is set otherwise.
const BYTES_MAX: usize = 8 << 20;

/// What some editors put before the first character of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file's text; `-` is standard input.
///
/// # Errors
/// When it can't be read, is larger than 8 MiB, or is no text in UTF-8; the message names the file.
pub fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        return text(std::io::stdin().lock()).context("reading standard input");
    }
    let opened = File::open(file).map_err(anyhow::Error::from);
    opened.and_then(text).with_context(|| format!("reading {}", file.display()))
}

fn text(source: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    source.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > BYTES_MAX {
        bail!(
            "it is larger than {} MiB, which is all that a registry takes at once: split it",
            BYTES_MAX >> 20
        );
    }
    let Ok(text) = String::from_utf8(bytes) else { bail!("it is no text in UTF-8") };
    Ok(text.strip_prefix(BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_end_is_left_when_it_is_too_large() {
        let refused = text(std::io::repeat(b'\n')).expect_err("too large").to_string();
        assert!(refused.starts_with("it is larger than 8 MiB"), "{refused}");
        let largest = text(std::io::repeat(b'\n').take(BYTES_MAX as u64)).expect("as large as may be");
        assert_eq!(largest.len(), BYTES_MAX);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        assert_eq!(text("\u{feff}kind: Job\n".as_bytes()).expect("text"), "kind: Job\n");
        assert_eq!(text("a\u{feff}".as_bytes()).expect("text"), "a\u{feff}");
        let refused = text(&b"\xff\xfek\0"[..]).expect_err("UTF-16").to_string();
        assert_eq!(refused, "it is no text in UTF-8");
    }
}
