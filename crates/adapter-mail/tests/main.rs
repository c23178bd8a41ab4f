//! The mails as their readers get them, and the contract of a notifier on the drop.

mod calendar;
mod golden;
mod mail_drop;
