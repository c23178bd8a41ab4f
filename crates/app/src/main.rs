//! The `notary-orders` binary.

use std::process::ExitCode;

/// An order takes some fifth less processor time than with the allocator of the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    app::cli::run()
}
