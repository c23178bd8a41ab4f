//! Rows of notes.

use diesel::{
    dsl::{auto_type, count_star},
    prelude::*,
    sql_types::{BigInt, Nullable, Text},
};
use domain::{
    order::{Actor, Note, OrderId, READ_NOTE_BYTES, StoredOrder, fitting_notes},
    ports::{Cursor, NoteNumber, NoteQuery, NumberedNote, Page},
};

use crate::{
    Utc,
    people::{doer_of, stored_doer},
    schema::order_notes,
};

/// Returns the query of the notes of an order in one direction from a note, the next one first: `$1` is the
/// order, `$2` the number of the note, `$3` how many to look at. It ends behind the note that is too much for
/// one answer. Numbers come from the index alone, so the texts of other notes are not read.
pub fn notes_query(is_toward_newer: bool) -> String {
    let (way, order) = if is_toward_newer { (">", "ASC") } else { ("<", "DESC") };
    format!(
        "SELECT number, at, author, text, doer FROM (\
            SELECT number, note.at, note.author, note.text, note.doer, \
                sum(octet_length(note.text)) OVER (ORDER BY number {order}) \
                    - octet_length(note.text) AS bytes_before \
            FROM (\
                SELECT id, number FROM (\
                    SELECT id, row_number() OVER (ORDER BY id) AS number \
                    FROM order_notes WHERE order_id = $1\
                ) AS numbered WHERE number {way} $2 ORDER BY number {order} LIMIT $3\
            ) AS next CROSS JOIN order_notes AS note WHERE note.id = next.id\
        ) AS sized WHERE bytes_before <= {READ_NOTE_BYTES} ORDER BY number {order}"
    )
}

/// Returns whether a page of an order with a number of notes can begin at a cursor.
pub fn is_place_in_notes(cursor: &Cursor<NoteNumber>, count: i64) -> bool {
    match cursor {
        Cursor::Newest => true,
        Cursor::OlderThan(note) => (1..=count).contains(&note.0),
        Cursor::NewerThan(note) => (NoteNumber::START.0..=count).contains(&note.0),
    }
}

/// Returns a page of the notes of an order. `rows` are those of [`notes_query`] from the cursor on.
pub fn notes_page(query: NoteQuery, rows: Vec<NumberedNoteRow>) -> Page<NumberedNote> {
    let notes: Vec<_> = rows.into_iter().map(NumberedNoteRow::into_note).collect();
    let limit = fitting_notes(query.limit, notes.iter().map(|it| &it.note));
    let has_others = match query.cursor {
        Cursor::Newest => false,
        Cursor::OlderThan(_) => true,
        Cursor::NewerThan(note) => note != NoteNumber::START,
    };
    Page::of(limit, &query.cursor, notes, has_others)
}

/// Gives an order its newest notes up to the instant at which it was read.
pub fn add_notes(found: &mut StoredOrder, newest: Page<NumberedNote>) {
    let notes = newest.items.into_iter().rev().map(|it| it.note);
    found.notes = notes.filter(|note| note.at <= found.updated_at).collect();
}

/// Counts the notes of an order.
#[auto_type(no_type_alias)]
pub fn note_count(order: OrderId) -> _ {
    let order: i64 = order.0;
    order_notes::table.filter(order_notes::order_id.eq(order)).select(count_star())
}

/// A note to add to an order.
#[derive(Insertable)]
#[diesel(table_name = order_notes)]
pub struct NoteRow {
    order_id: i64,
    at: Utc,
    author: String,
    text: String,
    doer: Option<i64>,
}

impl NoteRow {
    /// Returns the row of a note.
    pub(crate) fn new(order: OrderId, note: &Note) -> Self {
        Self {
            order_id: order.0,
            at: Utc(note.at),
            author: note.author.as_str().to_owned(),
            text: note.text.clone(),
            doer: note.by.map(stored_doer),
        }
    }
}

/// A note of an order, with its number.
#[derive(QueryableByName)]
pub struct NumberedNoteRow {
    #[diesel(sql_type = BigInt)]
    number: i64,
    #[diesel(sql_type = crate::Instant)]
    at: Utc,
    #[diesel(sql_type = Text)]
    author: String,
    #[diesel(sql_type = Text)]
    text: String,
    #[diesel(sql_type = Nullable<BigInt>)]
    doer: Option<i64>,
}

impl NumberedNoteRow {
    /// Returns the note.
    pub(crate) fn into_note(self) -> NumberedNote {
        // Another version of the service has named one that this does not know.
        let author = Actor::from_name(&self.author).unwrap_or(Actor::Database);
        let by = self.doer.map(doer_of);
        let note = Note { at: self.at.0, author, text: self.text, by };
        NumberedNote { number: NoteNumber(self.number), note }
    }
}
