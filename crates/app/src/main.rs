//! The `notary-orders` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    app::cli::run()
}
