//! Work in the background that no request waits for.

pub mod count_attention;
pub mod erase_old_orders;
pub mod fold_texts;
pub mod forget_keys;
pub mod sweep_uploads;
pub mod watch_clock;
