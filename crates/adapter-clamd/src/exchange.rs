//! The protocol of clamd: one command for each connection (manual page of clamd, "COMMANDS").

use std::pin::pin;

use domain::{
    document::SpooledFile,
    ports::{ScanError, Verdict},
};
use futures_util::future::{Either, select};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
    split,
};

use crate::{address::Connection, failure::Failure, frames::Frames};

/// Greatest length of an answer. The names of malware are shorter.
const MAX_ANSWER: u64 = 1024;

/// Streams a file to clamd, and returns its verdict.
///
/// Reads while it writes: clamd answers early if a document is too large.
pub(crate) async fn scan(
    connection: Box<dyn Connection>,
    file: &SpooledFile,
) -> Result<Verdict, ScanError> {
    let (reader, mut writer) = split(connection);
    let (sending, answer) = (pin!(send(file, &mut writer)), pin!(read_answer(reader)));
    let (sent, answer) = match select(sending, answer).await {
        Either::Left((Ok(()), answer)) => (Ok(()), answer.await),
        // Its answer tells why clamd has ended the connection.
        Either::Left((Err(failure @ Failure::Lost(_)), answer)) => match answer.await {
            Ok(answer) => (Err(failure), Ok(answer)),
            Err(_) => return Err(failure.into()),
        },
        Either::Left((Err(failure), _)) => return Err(failure.into()),
        Either::Right((answer, _)) => (Err(Failure::EarlyAnswer), answer),
    };
    match Answer::parse(&answer?) {
        Answer::Found(signature) => Ok(Verdict::Infected { signature }),
        Answer::TooLarge => Err(ScanError::TooLarge),
        Answer::Ok => {
            sent?;
            Ok(Verdict::Clean)
        }
        Answer::Error(text) => Err(Failure::Clamd(text).into()),
        Answer::Foreign => Err(Failure::Foreign.into()),
    }
}

/// Asks clamd whether it is there.
pub(crate) async fn ping(connection: Box<dyn Connection>) -> Result<(), Failure> {
    let (reader, mut writer) = split(connection);
    writer.write_all(b"zPING\0").await.map_err(Failure::Lost)?;
    match &read_answer(reader).await?[..] {
        b"PONG" => Ok(()),
        _ => Err(Failure::Foreign),
    }
}

async fn send(file: &SpooledFile, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), Failure> {
    let mut frames = Frames::open(file).await?;
    writer.write_all(b"zINSTREAM\0").await.map_err(Failure::Lost)?;
    loop {
        frames = frames.next().await?;
        writer.write_all(frames.bytes()).await.map_err(Failure::Lost)?;
        if frames.is_end() {
            return Ok(());
        }
    }
}

/// Reads an answer, and returns it without the zero byte at its end.
async fn read_answer(reader: impl AsyncRead + Unpin) -> Result<Vec<u8>, Failure> {
    let mut answer = Vec::new();
    let mut reader = BufReader::new(reader.take(MAX_ANSWER));
    reader.read_until(0, &mut answer).await.map_err(Failure::Lost)?;
    match answer.pop() {
        Some(0) => Ok(answer),
        _ => Err(Failure::ShortAnswer),
    }
}

/// An answer to `INSTREAM`.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Ok,
    /// The name of the malware, in printable ASCII.
    Found(String),
    TooLarge,
    /// What has failed, in printable ASCII.
    Error(String),
    /// None of clamd's. It may quote the document, so its text is dropped.
    Foreign,
}

impl Answer {
    fn parse(answer: &[u8]) -> Self {
        let Ok(answer) = str::from_utf8(answer) else { return Self::Foreign };
        let is_printable = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
        };
        let result = answer.strip_prefix("stream: ");
        let found = result.and_then(|result| result.strip_suffix(" FOUND"));
        match (result, found, answer.strip_suffix(" ERROR")) {
            (Some("OK"), ..) => Self::Ok,
            (_, Some(name), _) if is_printable(name) => Self::Found(name.replace(' ', "_")),
            (.., Some("INSTREAM size limit exceeded.")) => Self::TooLarge,
            (.., Some(text)) if is_printable(text) => Self::Error(text.to_owned()),
            _ => Self::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ok_is_clean() {
        for (answer, expected) in [
            ("stream: OK", Answer::Ok),
            ("stream: Eicar-Signature FOUND", Answer::Found("Eicar-Signature".to_owned())),
            ("stream: Eicar(44d8:68) FOUND", Answer::Found("Eicar(44d8:68)".to_owned())),
            ("stream: a b FOUND", Answer::Found("a_b".to_owned())),
            ("INSTREAM size limit exceeded. ERROR", Answer::TooLarge),
            (
                "stream: Can't allocate memory ERROR",
                Answer::Error("stream: Can't allocate memory".to_owned()),
            ),
            ("", Answer::Foreign),
            ("OK", Answer::Foreign),
            ("stream: ok", Answer::Foreign),
            ("stream: OK\n", Answer::Foreign),
            (" stream: OK", Answer::Foreign),
            ("stream: OK OK", Answer::Foreign),
            ("stream: \n FOUND", Answer::Foreign),
            ("1: stream: OK", Answer::Foreign),
            ("Jane Doe, 555-010-0199", Answer::Foreign),
            ("Jane\nDoe ERROR", Answer::Foreign),
            ("UNKNOWN COMMAND", Answer::Foreign),
        ] {
            assert_eq!(Answer::parse(answer.as_bytes()), expected, "{answer:?}");
        }
        assert_eq!(Answer::parse(b"stream: \xff FOUND"), Answer::Foreign);
    }
}
