//! The mails as their readers get them, and the contract of a notifier on the drop and the relay.

mod calendar;
mod golden;
mod mail_drop;
mod smtp;
