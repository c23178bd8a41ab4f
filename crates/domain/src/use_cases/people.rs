//! People: invite, sign in, sign out, manage.

pub mod forget_sessions;
pub mod mail_invitation;
pub mod manage_people;
pub mod name_doers;
pub mod sessions;
pub mod sign_in;
