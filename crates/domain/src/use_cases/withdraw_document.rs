//! Use case: withdraw a document, such as that of another borrower, from an order.

use crate::{
    order::{DocumentId, OrderCommand},
    ports::{Changed, OrderCommandRequest},
    precondition::DocumentPrecondition,
    use_cases::{
        accesses::recorder::BegunAccess,
        change_order::Changer,
        intake::{Intake, remove_condemned},
        order_error::OrderError,
    },
};

/// Withdraws documents.
#[derive(Clone)]
pub struct WithdrawDocument {
    /// Stores orders and documents.
    pub intake: Intake,
}

impl WithdrawDocument {
    /// Withdraws a document. When it returns, its bytes are gone. Withdrawing it again deletes what an
    /// earlier attempt could not delete. A cancelled order permits it too. Objects of other documents
    /// do not count.
    ///
    /// # Errors
    /// - [`OrderError::Store`]: the document may be withdrawn. Then the sweeper deletes its bytes soon.
    /// - [`OrderError::Changed`]: the precondition is false.
    pub async fn withdraw(
        &self,
        changer: &Changer,
        document: DocumentId,
        precondition: DocumentPrecondition,
    ) -> Result<(), OrderError> {
        let Intake { orders, reader, blobs, uploads, clock, .. } = &self.intake;
        changer.find(&**reader, document.order).await?;
        let DocumentId { order, kind, position } = document;
        let request = OrderCommandRequest {
            owner: Some(changer.owner),
            order,
            command: OrderCommand::Withdraw { kind, position, precondition },
            at: clock.now(),
            idempotent_request: None,
            access: changer.access.as_ref().map(BegunAccess::done),
        };
        let condemned = match orders.change(&request).await? {
            Changed::DocumentsWithdrawn(condemned) => condemned,
            other => return Err(other.unexpected().into()),
        };
        remove_condemned(&**blobs, &**uploads, condemned).await.1?;
        Ok(())
    }
}
