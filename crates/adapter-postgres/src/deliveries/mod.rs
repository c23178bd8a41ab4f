//! Events and mails.

mod mails;
mod outbox;
