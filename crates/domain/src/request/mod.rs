//! Members of requests as clients send them, and the rules that `garde` applies to them.
//!
//! A request is a struct with a field for each member of the JSON object. The type of a field says how
//! its JSON is read: [`Line`], [`Code`], `bool`, [`Object`]. Its `garde` attribute is its rule:
//!
//! ```text
//! #[garde(custom(required(email)))]
//! pub orderContactEmail: Sent<Code>,
//! #[garde(dive, custom(optional(any)))]
//! pub inHouseContact: Sent<Object<ContactRequest>>,
//! ```

mod characters;
mod json;
mod object;
mod phone;
pub mod rules;
mod sent;
mod text;
mod violation;

pub use characters::is_invisible;
pub use json::whole_characters;
pub(crate) use json::{integer, scaled};
pub use object::{Object, Unknown};
pub(crate) use object::{names, pointer, says};
pub use phone::phone_parts;
pub use rules::Fault;
pub use sent::{Member, Sent};
pub use text::{Code, Line, Lines, Text, Word};
pub use violation::{Violation, ViolationCode};
