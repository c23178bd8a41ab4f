/// The URL or a variable is wrong. The text says what must be written. It never repeats the URL or a
/// variable, which may contain credentials.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub(crate) String);

pub(crate) fn wrong(text: &str) -> OpenError {
    OpenError(text.to_owned())
}
