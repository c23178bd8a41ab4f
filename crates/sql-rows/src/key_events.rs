//! Rows of the history of API keys.

use diesel::prelude::*;
use domain::api_key::{ApiKeyId, KeyChange, KeyEvent};
use time::OffsetDateTime;

use crate::{Unreadable, Utc, schema::key_events};

/// An entry in the history of keys.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = key_events)]
pub struct KeyEventRow {
    api_key_id: i64,
    change: String,
    successor_id: Option<i64>,
    at: Utc,
    by: String,
}

impl KeyEventRow {
    /// Returns the entry of a change.
    pub fn new(key: ApiKeyId, change: KeyChange, at: OffsetDateTime, by: &str) -> Self {
        Self {
            api_key_id: key.0,
            change: change.as_str().to_owned(),
            successor_id: change.successor().map(|id| id.0),
            at: Utc(at),
            by: by.to_owned(),
        }
    }

    /// Returns the entry.
    pub fn into_event(self) -> Result<KeyEvent, Unreadable> {
        let change = KeyChange::from_stored(&self.change, self.successor_id.map(ApiKeyId));
        let unreadable = || Unreadable::new("key_events of key", &self.api_key_id, &"change");
        Ok(KeyEvent {
            key: ApiKeyId(self.api_key_id),
            change: change.ok_or_else(unreadable)?,
            at: self.at.0,
            by: self.by,
        })
    }
}
