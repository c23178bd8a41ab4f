use std::sync::Mutex;

use async_trait::async_trait;
use domain::{
    delivery::Notification,
    ports::{Notifier, NotifyError},
};

/// What an [`InMemoryNotifier`] answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NotifierAnswer {
    /// It takes the mail.
    #[default]
    Taken,
    /// It takes nobody's mail.
    Unavailable,
    /// It may take the mail later.
    Transient,
    /// It will never take the mail.
    Permanent,
}

/// A notifier that keeps what it is handed.
#[derive(Debug, Default)]
pub struct InMemoryNotifier {
    taken: Mutex<Vec<Notification>>,
    answer: Mutex<NotifierAnswer>,
}

impl InMemoryNotifier {
    /// Answers so from now on.
    pub fn set_answer(&self, answer: NotifierAnswer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// The notifications taken, in the order in which they came.
    pub fn taken(&self) -> Vec<Notification> {
        self.taken.lock().unwrap().clone()
    }
}

#[async_trait]
impl Notifier for InMemoryNotifier {
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError> {
        match *self.answer.lock().unwrap() {
            NotifierAnswer::Taken => self.taken.lock().unwrap().push(notification.clone()),
            NotifierAnswer::Unavailable => return Err(unavailable()),
            NotifierAnswer::Transient => return Err(NotifyError::Transient("busy".into())),
            NotifierAnswer::Permanent => return Err(NotifyError::Permanent("refused".into())),
        }
        Ok(())
    }

    async fn check(&self) -> Result<(), NotifyError> {
        if *self.answer.lock().unwrap() == NotifierAnswer::Unavailable {
            Err(unavailable())
        } else {
            Ok(())
        }
    }
}

fn unavailable() -> NotifyError {
    NotifyError::Unavailable("down".into())
}
