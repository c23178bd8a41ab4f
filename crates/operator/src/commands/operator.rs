//! What the commands about orders work with.

use std::sync::Arc;

use domain::ports::Clock;

use crate::{adapters::Storage, settings::Settings};

/// What an operator works with.
pub(super) struct Operator {
    pub(super) settings: Settings,
    pub(super) storage: Storage,
    pub(super) clock: Arc<dyn Clock>,
}
