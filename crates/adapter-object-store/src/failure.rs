use std::{error::Error as StdError, io, time::Duration};

use domain::ports::StoreError;
use object_store::Error;

/// Most characters that are kept of what a store says.
const MESSAGE: usize = 200;

/// What those stores answer to a removal that have no success for an object that is not there:
/// Google, Azure, and those made after them. Amazon's has one.
const ABSENT: [&str; 4] = ["NoSuchKey", "No such object", "BlobNotFound", "blob does not exist"];

/// Why a remote store did not do what it was asked, in one line. The errors of `object_store`
/// repeat the request, whose query may be a signature, and the whole body of the answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Its status and, where it says one, its code; and what may be the reason.
    #[error("it answered {0}{1}")]
    Refused(String, &'static str),
    /// What went wrong instead, and what may be the reason.
    #[error("{0}{1}")]
    NoAnswer(String, &'static str),
}

impl Failure {
    pub(crate) fn of(error: &Error, reason: &'static str) -> Self {
        let text = error.to_string();
        match answer(&text) {
            // A store that says why needs no guess.
            Some(answer) => {
                Self::Refused(answer, if element(&text, "Code").is_some() { "" } else { reason })
            }
            None => Self::NoAnswer(one_line(&root(error).to_string()), reason),
        }
    }

    pub(crate) fn silence(waited: Duration, reason: &'static str) -> Self {
        Self::NoAnswer(format!("no answer within {:.1} seconds", waited.as_secs_f32()), reason)
    }
}

/// A store that refuses the service is one that does not answer: once an operator has mended that,
/// the same call succeeds.
pub(crate) fn is_transient(error: &Error) -> bool {
    matches!(
        error,
        Error::Generic { .. }
            | Error::NotFound { .. }
            | Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
    )
}

pub(crate) fn store_error(error: Error) -> StoreError {
    if is_transient(&error) {
        StoreError::Unavailable(error.into())
    } else {
        StoreError::Internal(error.into())
    }
}

/// Whether an object could not be removed because there is none. That the whole bucket is not there
/// is another matter: the object may be there again with it.
pub(crate) fn is_absent(error: &Error) -> bool {
    let Error::NotFound { .. } = error else { return false };
    let on_disk = root(error)
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::NotFound);
    let text = error.to_string();
    on_disk || ABSENT.iter().any(|absent| text.contains(absent))
}

fn root<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    std::iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error)
}

/// The status of an answer, and the code and the message in its body, from the text of an error.
fn answer(text: &str) -> Option<String> {
    let status =
        text.split_once("status code: ").map(|(_, rest)| rest.split(':').next().unwrap_or(rest));
    let Some(code) = element(text, "Code") else { return status.map(one_line) };
    let number = status.and_then(|status| status.split(' ').next());
    let parts = [number, Some(code)].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Some(one_line(
        &element(text, "Message").map_or(parts.clone(), |message| format!("{parts}: {message}")),
    ))
}

fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

pub(crate) fn one_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .trim_end()
        .chars()
        .filter(|character| !character.is_control())
        .take(MESSAGE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_its_code_and_the_first_line_of_its_message() {
        for (text, expected) in [
            (
                "Error performing PUT http://h/b?sig=secret in 5ms - Server returned non-2xx status code: 404 Not Found: <?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>No bucket.\nRequestId: 7</Message></Error>",
                Some("404 NoSuchBucket: No bucket."),
            ),
            (
                "Server returned non-2xx status code: 503 Service Unavailable: <html>gone</html>",
                Some("503 Service Unavailable"),
            ),
            (
                "Server returned non-2xx status code: 500 Internal Server Error: ",
                Some("500 Internal Server Error"),
            ),
            (
                "Server returned error response: <Error><Code>SlowDown</Code></Error>",
                Some("SlowDown"),
            ),
            ("HTTP error: error sending request", None),
        ] {
            assert_eq!(answer(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_a_store_says_is_cut_and_cannot_break_a_line_or_a_terminal() {
        assert_eq!(one_line("a\u{1b}[31m\tb\r\nc"), "a[31mb");
        assert_eq!(one_line(&"x".repeat(1_000)).len(), MESSAGE);
    }

    #[test]
    fn a_bucket_that_is_not_there_does_not_mean_that_its_objects_are_gone() {
        let not_found = |source: &str| Error::NotFound {
            path: "key".to_owned(),
            source: source.to_owned().into(),
        };
        assert!(is_absent(&not_found("<Code>NoSuchKey</Code>")));
        assert!(is_absent(&not_found("404 The specified blob does not exist.")));
        assert!(!is_absent(&not_found("<Code>NoSuchBucket</Code>")));
        assert!(!is_absent(&not_found("404 Not Found: <html>nginx</html>")));
    }
}
