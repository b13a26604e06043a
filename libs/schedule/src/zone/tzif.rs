//! Compiled zone files (TZif, RFC 9636): the 64-bit block and the footer, of version 2 or later.
//!
//! Total: bytes that are no such file give none, never a panic.

use super::{LAST_INSTANT, MARGIN, Stretch, posix};

/// The lengths that a header announces.
struct Header {
    version: u8,
    indicators_ut: usize,
    indicators_std: usize,
    leaps: usize,
    transitions: usize,
    types: usize,
    abbreviation_bytes: usize,
}

const HEADER_BYTES: usize = 44;

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        if header.get(..4)? != b"TZif" {
            return None;
        }
        let count = |index: usize| -> Option<usize> {
            let at = 20 + 4 * index;
            usize::try_from(u32::from_be_bytes(header.get(at..at + 4)?.try_into().ok()?)).ok()
        };
        Some(Self {
            version: header[4],
            indicators_ut: count(0)?,
            indicators_std: count(1)?,
            leaps: count(2)?,
            transitions: count(3)?,
            types: count(4)?,
            abbreviation_bytes: count(5)?,
        })
    }

    /// Bytes of the block that follows, when its times have `time_bytes` each.
    fn block_bytes(&self, time_bytes: usize) -> usize {
        self.transitions * (time_bytes + 1)
            + self.types * 6
            + self.abbreviation_bytes
            + self.leaps * (time_bytes + 4)
            + self.indicators_std
            + self.indicators_ut
    }
}

/// The changes that a file describes, in order, from the beginning of time to the end of the supported one.
pub(super) fn changes(bytes: &[u8]) -> Option<Vec<Stretch>> {
    let narrow = Header::read(bytes)?;
    if narrow.version < b'2' {
        return None;
    }
    let bytes = bytes.get(HEADER_BYTES + narrow.block_bytes(4)..)?;
    let header = Header::read(bytes)?;
    let block = bytes.get(HEADER_BYTES..)?;
    let footer = block.get(header.block_bytes(8)..)?;

    let (times, rest) = block.split_at_checked(header.transitions * 8)?;
    let (indexes, rest) = rest.split_at_checked(header.transitions)?;
    let types = rest.get(..header.types * 6)?;
    let offset = |index: u8| -> Option<i32> {
        let at = usize::from(index) * 6;
        Some(i32::from_be_bytes(types.get(at..at + 4)?.try_into().ok()?))
    };

    let mut changes = vec![Stretch { start: i64::MIN, offset: offset(0)? }];
    for (time, index) in times.chunks_exact(8).zip(indexes) {
        let start = i64::from_be_bytes(time.try_into().ok()?);
        changes.push(Stretch { start, offset: offset(*index)? });
    }
    let known_to = changes.last().map_or(i64::MIN, |change| change.start);
    let footer = std::str::from_utf8(footer).ok()?.trim_matches('\n');
    if !footer.is_empty() {
        let rule = posix::Rule::parse(footer)?;
        changes.extend(rule.changes(known_to, LAST_INSTANT + MARGIN));
    }
    Some(changes)
}
