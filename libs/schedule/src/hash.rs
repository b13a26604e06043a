//! A stable hash: what `H` and jitter draw from.
//!
//! Invariant: the same text gives the same number in every version, on every machine. A change would move every
//! job that uses `H` or jitter (`drawn_numbers_never_change` pins it).

/// 64 well-mixed bits of a job's identity and a purpose.
fn mix(seed: &str, purpose: &str) -> u64 {
    // FNV-1a over both texts with a separator, then a finalizer: FNV alone leaves the high bits poor.
    let bytes = seed.bytes().chain([0xff]).chain(purpose.bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// A number below `count` (0 when that is 0), evenly spread over seeds.
pub(crate) fn pick(seed: &str, purpose: &str, count: u32) -> u32 {
    scale(seed, purpose, u64::from(count)) as u32
}

/// A number below `span` (0 when that is 0), evenly spread over seeds, and rising with `span`.
pub(crate) fn scale(seed: &str, purpose: &str, span: u64) -> u64 {
    ((u128::from(mix(seed, purpose)) * u128::from(span)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_numbers_never_change() {
        let drawn: Vec<u32> =
            ["invoices", "reports", ""].iter().map(|seed| pick(seed, "minute", 60)).collect();
        assert_eq!(drawn, [17, 47, 9]);
        assert_eq!(pick("invoices", "hour", 24), 5);
        assert_eq!(scale("invoices", "jitter", 600_000), 438_683);
    }

    #[test]
    fn jobs_spread_evenly() {
        let mut buckets = [0_u32; 60];
        for job in 0..60_000 {
            buckets[pick(&format!("job-{job}"), "minute", 60) as usize] += 1;
        }
        assert!(buckets.iter().all(|jobs| (850..1_150).contains(jobs)), "{buckets:?}");
    }
}
