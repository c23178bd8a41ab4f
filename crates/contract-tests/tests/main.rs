//! The contracts themselves: the fakes fulfil them, and their lists are complete.

mod fakes;
mod obligations;
mod outside;
