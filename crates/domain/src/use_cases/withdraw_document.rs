//! Use case: withdraw a document, such as that of another borrower, from an order.

use crate::{
    api_key::ApiKey,
    order::DocumentId,
    ports::Withdrawal,
    use_cases::{
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
    /// Withdraws a document. When it returns, the bytes are gone. Withdrawing it again deletes what an
    /// earlier attempt could not delete. A cancelled order permits it too.
    ///
    /// # Errors
    /// [`OrderError::Store`]: the document may be withdrawn. Then the sweeper deletes its bytes soon.
    pub async fn withdraw(&self, key: &ApiKey, document: DocumentId) -> Result<(), OrderError> {
        let Intake { orders, reader, blobs, uploads, clock, .. } = &self.intake;
        Changer::of(key).find(&**reader, document.order).await?;
        let withdrawal = Withdrawal { owner: key.owner(), document, at: clock.now() };
        let condemned = orders.withdraw(&withdrawal).await?;
        remove_condemned(&**blobs, &**uploads, condemned).await.1?;
        Ok(())
    }
}
