//! The protocol of clamd: one command for each connection (manual page of clamd, "COMMANDS").

use std::pin::pin;

use domain::{
    document::SpooledFile,
    ports::{ScanError, Verdict},
};
use futures_util::future::{Either, select};
use tokio::{
    fs::File,
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader, split,
    },
};

use crate::{address::Connection, failure::Failure};

/// Greatest length of an answer. The names of malware are shorter.
const MAX_ANSWER: u64 = 1024;
/// Bytes of a file that are read and sent at a time.
const BLOCK: usize = 128 * 1024;
/// Bytes before a block, with its length.
const HEAD: usize = 4;

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
        Either::Right((answer, _)) => {
            (Err(Failure::Other("the answer came before the end of the document".into())), answer)
        }
    };
    let verdict = verdict(&answer?)?;
    if verdict == Verdict::Clean {
        sent?;
    }
    Ok(verdict)
}

/// Asks clamd whether it is there.
pub(crate) async fn ping(connection: Box<dyn Connection>) -> Result<(), Failure> {
    let (reader, mut writer) = split(connection);
    writer.write_all(b"zPING\0").await.map_err(Failure::Lost)?;
    match &read_answer(reader).await?[..] {
        b"PONG" => Ok(()),
        _ => Err(foreign()),
    }
}

fn foreign() -> Failure {
    Failure::Other("the answer is not from clamd".into())
}

/// Sends the command and the blocks of a file, each with its length before it. The empty block at the
/// end marks the end for clamd; a file of another size does not get there.
async fn send(
    spooled: &SpooledFile,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), Failure> {
    let mut file = File::open(&spooled.path).await.map_err(Failure::File)?;
    writer.write_all(b"zINSTREAM\0").await.map_err(Failure::Lost)?;
    let (mut block, mut left) = (vec![0; HEAD + BLOCK], spooled.size);
    loop {
        let read = file.read(&mut block[HEAD..]).await.map_err(Failure::File)?;
        let length = u32::try_from(read).unwrap_or(u32::MAX);
        if u64::from(length) > left || read == 0 && left > 0 {
            let changed = "the spooled file no longer has the size that it was received with";
            return Err(Failure::Other(changed.into()));
        }
        left -= u64::from(length);
        block[..HEAD].copy_from_slice(&length.to_be_bytes());
        writer.write_all(&block[..HEAD + read]).await.map_err(Failure::Lost)?;
        if read == 0 {
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
        _ => Err(Failure::Other("the answer ended early".into())),
    }
}

/// Reads an answer to `INSTREAM`. Names and reasons of clamd are printable ASCII. Any other text may
/// quote the document, so it is dropped.
fn verdict(answer: &[u8]) -> Result<Verdict, ScanError> {
    let is_printable = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
    };
    let answer = str::from_utf8(answer).map_err(|_| foreign())?;
    let result = answer.strip_prefix("stream: ");
    let found = result.and_then(|result| result.strip_suffix(" FOUND"));
    match (result, found, answer.strip_suffix(" ERROR")) {
        (Some("OK"), ..) => Ok(Verdict::Clean),
        (_, Some(name), _) if is_printable(name) => {
            Ok(Verdict::Infected { signature: name.replace(' ', "_") })
        }
        (.., Some("INSTREAM size limit exceeded.")) => Err(ScanError::TooLarge),
        (.., Some(text)) if is_printable(text) => {
            Err(Failure::Other(format!("clamd failed: {text}").into()).into())
        }
        _ => Err(foreign().into()),
    }
}

#[cfg(test)]
mod tests {
    use domain::ports::error_chain;

    use super::*;

    #[test]
    fn only_ok_is_clean() {
        let infected = |name: &str| Ok(Verdict::Infected { signature: name.to_owned() });
        let failed = |text: &str| Err(format!("the malware scanner is unavailable: {text}"));
        let foreign = || failed("the answer is not from clamd");
        for (answer, expected) in [
            ("stream: OK", Ok(Verdict::Clean)),
            ("stream: Eicar-Signature FOUND", infected("Eicar-Signature")),
            ("stream: Eicar(44d8:68) FOUND", infected("Eicar(44d8:68)")),
            ("stream: a b FOUND", infected("a_b")),
            (
                "INSTREAM size limit exceeded. ERROR",
                Err("the document is larger than the malware scanner accepts".to_owned()),
            ),
            (
                "stream: Can't allocate memory ERROR",
                failed("clamd failed: stream: Can't allocate memory"),
            ),
            ("", foreign()),
            ("OK", foreign()),
            ("stream: ok", foreign()),
            ("stream: OK\n", foreign()),
            (" stream: OK", foreign()),
            ("stream: OK OK", foreign()),
            ("stream: \n FOUND", foreign()),
            ("1: stream: OK", foreign()),
            ("Jane Doe, 555-010-0199", foreign()),
            ("Jane\nDoe ERROR", foreign()),
            ("UNKNOWN COMMAND", foreign()),
        ] {
            let read = verdict(answer.as_bytes()).map_err(|error| error_chain(&error));
            assert_eq!(read, expected, "{answer:?}");
        }
        assert!(verdict(b"stream: \xff FOUND").is_err());
    }
}
