//! Checks of the project: its architecture, its documents, the compatibility of its API, and the clock
//! and randomness of the machine.

mod architecture;
mod compatibility;
mod files;
mod links;
mod machine;
