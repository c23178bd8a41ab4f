//! Migrations are embedded by name of their folder, so a new one must be noticed.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations/postgres");
}
