//! Fingerprints: whether two requests under one `Idempotency-Key` are the same.

use domain::{
    document::ReceivedDocument,
    idempotency::{Attempt, Claim, Fingerprint},
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::respond::problem::Problem;

/// Returns the attempt of a request that was read. Fingerprints are equal when mode, operation, fields
/// and documents are equal, however the request is written.
pub fn attempt(
    claim: Claim,
    operation: &str,
    request: &impl Serialize,
    documents: &[ReceivedDocument],
) -> Result<Attempt, Problem> {
    // Absent and blank fields are never written, so a field added later does not change earlier
    // fingerprints.
    let fields = serde_json::to_string(request).map_err(|error| Problem::internal().log(&error))?;
    let mut hash = Sha256::new();
    hash.update([u8::from(claim.key.owner.is_test)]);
    hash_text(&mut hash, operation);
    hash_text(&mut hash, &fields);
    for document in documents {
        hash_text(&mut hash, &document.name_as_sent);
        hash.update(document.file.size.to_be_bytes());
        hash.update(document.file.sha256.0);
    }
    Ok(Attempt { claim, fingerprint: Fingerprint(hash.finalize().into()) })
}

/// Hashes a text with its length, so that different sequences of texts have different hashes.
fn hash_text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text);
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
