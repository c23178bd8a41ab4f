use std::{
    error::Error as StdError,
    io::{
        self,
        ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem},
    },
    time::Duration,
};

use domain::ports::StoreError;
use object_store::Error;
use tokio::time::timeout;

/// Most characters of a store's message that an error repeats.
const MAX_MESSAGE_CHARS: usize = 200;

/// The answer of Google, Azure and compatible stores to the removal of a missing object. Amazon S3
/// reports success.
const ABSENT: [&str; 4] = ["NoSuchKey", "No such object", "BlobNotFound", "blob does not exist"];

/// The failure of a request to a remote store.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    text: String,
    is_refusal: bool,
}

impl Failure {
    /// Describes an error in one line, with a hint. The errors of `object_store` repeat the request,
    /// whose query may contain a signature, and the whole response body.
    pub(crate) fn of(error: &Error, hint: &str) -> Self {
        let text = error.to_string();
        let Some(response) = response(&text) else {
            let text = match names::tls_failure(error) {
                Some(words) => format!("TLS failed: {words}"),
                None => one_line(&root(error).to_string()),
            };
            return Self { text: text + hint, is_refusal: false };
        };
        // An error code needs no hint.
        let hint = if element(&text, "Code").is_some() { "" } else { hint };
        Self { text: format!("it answered {response}{hint}"), is_refusal: is_refused(&response) }
    }
}

/// Returns whether a response rejects the request itself, such as for wrong credentials or a
/// missing bucket.
fn is_refused(response: &str) -> bool {
    let status = response.split(' ').next().and_then(|status| status.parse().ok());
    status.is_some_and(|status| (300..500).contains(&status) && ![408, 429].contains(&status))
}

/// Returns whether a check failed because of the settings: the store rejects the credentials, the
/// bucket is missing, or the folder cannot be written. A store that does not answer, or is full, is
/// no refusal.
pub fn is_refusal(error: &StoreError) -> bool {
    let (StoreError::Unavailable(cause) | StoreError::Internal(cause)) = error;
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return failure.is_refusal;
    }
    let cause = root(&**cause);
    cause.downcast_ref::<io::Error>().is_some_and(|error| {
        [NotFound, NotADirectory, PermissionDenied, ReadOnlyFilesystem].contains(&error.kind())
    })
}

/// Describes an error of a remote store. Each may be gone later: a request with rejected credentials
/// succeeds after an operator has corrected them.
pub(crate) fn store_error(error: &Error, hint: &str) -> StoreError {
    StoreError::Unavailable(Failure::of(error, hint).into())
}

/// Runs work within a time limit.
pub(crate) async fn within<T>(
    limit: Duration,
    hint: &str,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(limit, work).await.unwrap_or_else(|_| {
        let seconds = limit.as_secs_f32();
        Err(StoreError::Unavailable(format!("no answer within {seconds:.1} seconds{hint}").into()))
    })
}

/// Returns whether a removal failed because the object does not exist. A missing bucket does not
/// count: it may come back with the object.
pub(crate) fn is_absent(error: &Error) -> bool {
    let Error::NotFound { .. } = error else { return false };
    let text = error.to_string();
    ABSENT.iter().any(|absent| text.contains(absent))
}

/// Returns whether a store rejected a range because the object ends before it.
pub(crate) fn is_beyond_end(error: &Error) -> bool {
    response(&error.to_string()).is_some_and(|response| response.starts_with("416"))
}

fn root<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    std::iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error)
}

/// Extracts the status of a response, and the code and message of its body, from an error text.
fn response(text: &str) -> Option<String> {
    let status =
        text.split_once("status code: ").map(|(_, rest)| rest.split(':').next().unwrap_or(rest));
    let Some(code) = element(text, "Code") else { return status.map(one_line) };
    let number = status.and_then(|status| status.split(' ').next()).unwrap_or_default();
    let message = element(text, "Message").map(|message| format!(": {message}"));
    Some(one_line(format!("{number} {code}{}", message.unwrap_or_default()).trim_start()))
}

fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

pub(crate) fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end();
    line.chars().filter(|character| !character.is_control()).take(MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_status_code_and_first_message_line() {
        for (text, expected) in [
            (
                "Error performing PUT http://h/b?sig=secret in 5ms - Server returned non-2xx \
                 status code: 404 Not Found: <?xml version=\"1.0\"?><Error>\
                 <Code>NoSuchBucket</Code><Message>No bucket.\nRequestId: 7</Message></Error>",
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
            assert_eq!(response(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn message_is_one_short_line_without_control_characters() {
        assert_eq!(one_line("a\u{1b}[31m\tb\r\nc"), "a[31mb");
        assert_eq!(one_line(&"x".repeat(1_000)).len(), MAX_MESSAGE_CHARS);
    }

    #[test]
    fn only_an_answer_to_the_request_itself_is_a_refusal() {
        for response in ["403 InvalidAccessKeyId: No.", "404 NoSuchBucket", "301 Moved Permanently"]
        {
            assert!(is_refused(response), "{response}");
        }
        for response in ["503 SlowDown", "408 Request Timeout", "429 Too Many", "SlowDown"] {
            assert!(!is_refused(response), "{response}");
        }
    }

    #[test]
    fn missing_bucket_is_not_a_missing_object() {
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
