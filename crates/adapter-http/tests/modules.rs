//! The modules of the crate do not use each other in circles.

use std::path::Path;

#[test]
fn modules_have_no_circular_uses() {
    contract_tests::modules::assert_no_circular_uses(Path::new(env!("CARGO_MANIFEST_DIR")));
}
