//! The contract of `Entropy`.

use domain::ports::Entropy;

/// A byte that is zero after twenty fills was not filled.
pub fn every_byte_is_filled(entropy: &dyn Entropy) {
    for length in 0..=100 {
        let mut filled = vec![false; length];
        for _ in 0..20 {
            let mut bytes = vec![0; length];
            entropy.fill(&mut bytes);
            for (filled, byte) in filled.iter_mut().zip(bytes) {
                *filled |= byte != 0;
            }
        }
        assert!(filled.into_iter().all(|filled| filled), "{length} bytes");
    }
}

/// Fills 128 bits, the size of a token.
pub fn fills_differ(entropy: &dyn Entropy) {
    let mut fills: Vec<[u8; 16]> = vec![[0; 16]; 1_000];
    for fill in &mut fills {
        entropy.fill(fill);
    }
    fills.sort_unstable();
    assert!(fills.windows(2).all(|pair| pair[0] != pair[1]));
}

/// No value is left out.
pub fn every_byte_value_occurs(entropy: &dyn Entropy) {
    let mut bytes = vec![0; 65_536];
    entropy.fill(&mut bytes);
    bytes.sort_unstable();
    bytes.dedup();
    assert_eq!(bytes.len(), 256);
}
