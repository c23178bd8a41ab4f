use std::borrow::Cow;

/// The reason why mails cannot be sent to a URL, or what must be written instead. The text never
/// repeats the URL, which may contain credentials.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub(crate) Cow<'static, str>);

impl OpenError {
    pub(crate) const fn url(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}
