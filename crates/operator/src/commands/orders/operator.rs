//! The stores of the commands about orders and people, and the accesses that these commands leave.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use domain::{
    access::{AccessActor, DONE, RunId},
    order::{OrderId, StoredOrder},
    ports::{Clock, MaybeErased, StoreError},
    use_cases::{
        accesses::{record_command::RecordCommand, recorder::BegunAccess},
        order_error::OrderError,
    },
};

use crate::{
    adapters::Storage,
    settings::{Settings, WrongSetting},
    system::{Machine, system_user},
};

/// The reason why a command finds no order.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum NoOrder {
    #[error("there is no order {0}")]
    Unknown(i64),
    #[error("order {0} was erased")]
    Erased(i64),
}

/// The reason why a command does nothing about a person.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum NoPerson {
    #[error("there is no person {0}")]
    Unknown(i64),
    #[error("person {0} is disabled; `people enable {0}` first")]
    Disabled(i64),
    #[error("person {0} was erased before")]
    Erased(i64),
    #[error("there is no open session {0}")]
    NoSession(i64),
    #[error("person {person} has no passkey {passkey}")]
    NoPasskey { person: i64, passkey: i64 },
}

/// The stores and settings of the commands about orders and people.
pub(in crate::commands) struct Operator {
    pub(in crate::commands) settings: Settings,
    pub(in crate::commands) storage: Storage,
    pub(in crate::commands) clock: Arc<dyn Clock>,
    pub(in crate::commands) recording: RecordCommand,
}

impl Operator {
    /// Opens the storage for a command, whose accesses are recorded.
    pub(in crate::commands) async fn open(
        settings: Settings,
        machine: &Machine,
        command: &str,
    ) -> Result<Self> {
        let storage = Storage::open_patiently(&settings).await?;
        let run = RunId::random(&*machine.entropy);
        let actor = AccessActor::Operator { command: command.to_owned(), user: system_user() };
        let clock = machine.clock.clone();
        let recording = RecordCommand::new(storage.accesses.clone(), run, clock.clone(), actor);
        Ok(Self { settings, storage, clock, recording })
    }

    /// Stores that the command has ended, and returns its result.
    pub(in crate::commands) async fn ended(&self, result: Result<()>) -> Result<()> {
        let ended = self.recording.end().await;
        result?;
        ended.context("it was done, but its end was not recorded")
    }

    /// Stores an access with the outcome of its work, before the operator sees the result.
    pub(in crate::commands) async fn recorded<T>(
        &self,
        access: BegunAccess,
        result: Result<T>,
    ) -> Result<T> {
        let kept = self.recording.keep(access, outcome(&result)).await;
        let done = result?;
        kept.context("it was done, but its access was not recorded")?;
        Ok(done)
    }

    /// Returns an order; an error if there is none, or if it was erased.
    pub(in crate::commands) async fn order(&self, id: OrderId) -> Result<StoredOrder> {
        match self.storage.admin.order(id).await? {
            Some(MaybeErased::Whole(order)) => Ok(order),
            Some(MaybeErased::Erased) => Err(NoOrder::Erased(id.0).into()),
            None => Err(NoOrder::Unknown(id.0).into()),
        }
    }
}

/// Returns the outcome of an access: the code of the problem with which the API answers the same.
fn outcome<T>(result: &Result<T>) -> &'static str {
    let Err(error) = result else { return DONE };
    if let Some(missing) = error.downcast_ref() {
        return match missing {
            NoOrder::Unknown(_) => "not_found",
            NoOrder::Erased(_) => "erased",
        };
    }
    if let Some(missing) = error.downcast_ref() {
        return match missing {
            NoPerson::Unknown(_) | NoPerson::NoSession(_) | NoPerson::NoPasskey { .. } => {
                "not_found"
            }
            NoPerson::Disabled(_) => "person_disabled",
            NoPerson::Erased(_) => "erased",
        };
    }
    if error.is::<WrongSetting>() {
        return "validation_failed";
    }
    if error.downcast_ref().is_some_and(StoreError::is_unreadable_order) {
        return "unreadable_order";
    }
    match error.downcast_ref() {
        Some(OrderError::NoSuchOrder) => "not_found",
        Some(OrderError::Erased) => "erased",
        Some(OrderError::Cancelled) => "order_cancelled",
        Some(OrderError::Closed) => "order_closed",
        Some(OrderError::TooManyNotes) => "too_many_notes",
        _ => "internal",
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn outcome_is_the_code_of_the_api() {
        let refused = |error: OrderError| Err::<(), _>(error).context("order 1 was not changed");
        assert_eq!(outcome(&Ok(())), "ok");
        assert_eq!(outcome::<()>(&Err(NoOrder::Unknown(1).into())), "not_found");
        assert_eq!(outcome::<()>(&Err(NoOrder::Erased(1).into())), "erased");
        assert_eq!(outcome::<()>(&Err(NoPerson::Unknown(1).into())), "not_found");
        assert_eq!(outcome::<()>(&Err(NoPerson::Disabled(1).into())), "person_disabled");
        assert_eq!(outcome(&refused(OrderError::Erased)), "erased");
        assert_eq!(outcome(&refused(OrderError::Cancelled)), "order_cancelled");
        assert_eq!(outcome::<()>(&Err(anyhow!("the disk is full"))), "internal");
    }
}
