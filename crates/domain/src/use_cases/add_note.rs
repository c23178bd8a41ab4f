//! Use case: add a note to an order.

use std::sync::Arc;

use time::Duration;

use crate::{
    idempotency::{Answered, Attempt, IdempotentRequest},
    order::{Note, OrderCommand, OrderId, change::NewNote, change_request::NoteRequest},
    ports::{
        Changed, Clock, Cursor, NoteNumber, NoteQuery, OrderCommandRequest, OrderReader, OrderRepo,
        StoreError, WriteError,
    },
    precondition::OrderPrecondition,
    use_cases::{
        accesses::recorder::BegunAccess, change_order::Changer, intake::answered,
        order_error::OrderError,
    },
};

/// Adds notes to orders.
#[derive(Clone)]
pub struct AddNote {
    /// Stores orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Reads orders.
    pub reader: Arc<dyn OrderReader>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Time for which a request is stored under its idempotency key.
    pub idempotency_retention: Duration,
}

/// A note that an order got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedNote {
    /// The note.
    pub note: Note,
    /// Whether an earlier request with the same idempotency key added it.
    pub replayed: bool,
}

impl AddNote {
    /// Adds a note.
    ///
    /// # Errors
    /// - [`OrderError::TooManyNotes`]: the order has as many as it can have.
    /// - [`OrderError::Changed`]: the precondition is false.
    pub async fn add(
        &self,
        changer: Changer,
        id: OrderId,
        request: NoteRequest,
        precondition: OrderPrecondition,
        attempt: Option<&Attempt>,
    ) -> Result<AddedNote, OrderError> {
        if changer.only_service.is_some() {
            changer.find(&*self.reader, id).await?;
        }
        let at = self.clock.now();
        let kept = |it| IdempotentRequest::kept_for(it, at, self.idempotency_retention);
        let note = NewNote { author: changer.actor, text: request.text, precondition };
        let request = OrderCommandRequest {
            owner: Some(changer.owner),
            order: id,
            command: OrderCommand::AddNote(note),
            at,
            idempotent_request: attempt.map(kept),
            access: changer.access.as_ref().map(BegunAccess::done),
        };
        match (self.orders.change(&request).await, attempt) {
            (Ok(Changed::NoteAdded(note)), _) => Ok(AddedNote { note, replayed: false }),
            (Ok(other), _) => Err(other.unexpected().into()),
            (Err(WriteError::KeyInUse(key_use)), Some(attempt)) => {
                let answered = answered(key_use, self.clock.now())?;
                self.repeat(changer, id, answered, attempt).await
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Returns the note that was added under the idempotency key of an attempt. Fails if this request
    /// differs from the one that added it.
    async fn repeat(
        &self,
        changer: Changer,
        id: OrderId,
        answered: Answered,
        attempt: &Attempt,
    ) -> Result<AddedNote, OrderError> {
        let range = answered.added_again(id, attempt).ok_or(OrderError::KeyReused)?;
        // Numbers begin at 1, so this is the note before.
        let before = NoteNumber(i64::from(range.first_position));
        let query = NoteQuery { limit: 1, cursor: Cursor::NewerThan(before) };
        let page = self.reader.notes(changer.owner, id, &query).await?;
        let page = OrderError::unless_erased(page)?;
        let found = page.and_then(|page| page.items.into_iter().next());
        let gone = || StoreError::Internal("the note of an idempotency key is gone".into());
        Ok(AddedNote { note: found.ok_or_else(gone)?.note, replayed: true })
    }
}

#[cfg(test)]
#[path = "add_note_tests.rs"]
mod tests;
