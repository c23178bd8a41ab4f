//! Orders with documents as a client sends them.

use std::io;

use crate::{
    http::{Answer, Connection},
    request::Request,
};

const TEXTS: [(&str, &str); 4] = [
    ("signingContactsFormData", r#"{"orderContactEmail":"escrow@title.example.com"}"#),
    (
        "signingDetailsFormData",
        r#"{"fileNumber":"F-################","signingDate":"2026-12-01","signingTimeType":"anytime","timeZoneId":"America/Chicago","propertyAddress":"1 Main St","signingType":"Purchase","signerName":"Jane Doe","signerPhone":"5550100199","signerEmail":"jane@example.com","city":"Dallas","state":"TX","zipcode":"75201"}"#,
    ),
    ("signingServiceId", "42"),
    ("requestedBy", r#"{"userId":1}"#),
];
const END: &[u8] = b"\r\n--b--\r\n";
/// Bytes that are given to the socket at a time.
const CHUNK: usize = 64 * 1024;

/// A PDF of so many bytes, which cannot be compressed.
pub fn document(bytes: usize) -> Vec<u8> {
    let mut document = vec![0; bytes];
    fastrand::Rng::with_seed(1).fill(&mut document);
    document[..9].copy_from_slice(b"%PDF-1.7\n");
    document
}

/// A form with the same document as often as there are to be documents.
#[derive(Clone)]
pub struct Form<'a> {
    /// Head of the request, and the texts.
    begin: Request,
    documents: usize,
    document: &'a [u8],
}

impl<'a> Form<'a> {
    pub fn new(key: &str, documents: usize, document: &'a [u8]) -> Self {
        let texts = TEXTS
            .map(|(name, text)| {
                format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
            })
            .concat();
        let length =
            texts.len() + documents * (part(0).len() + document.len()) - "\r\n".len() + END.len();
        let begin = Request::new(format!(
            "POST /api/order/create-with-documents HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n{texts}"
        ));
        Self { begin, documents, document }
    }

    /// Uploads it as another order each time; `pause` is called after each chunk.
    pub fn upload(&mut self, connection: &mut Connection, pause: impl Fn()) -> io::Result<Answer> {
        connection.send(self.begin.next())?;
        for at in 0..self.documents {
            let part = part(at);
            // The texts end with a line, the documents do not.
            connection.send(if at == 0 { &part.as_bytes()[2..] } else { part.as_bytes() })?;
            for chunk in self.document.chunks(CHUNK) {
                connection.send(chunk)?;
                pause();
            }
        }
        connection.send(END)?;
        connection.answer()
    }
}

/// What is between two documents.
fn part(at: usize) -> String {
    format!(
        "\r\n--b\r\nContent-Disposition: form-data; name=\"documents\"; filename=\"{at:02}.pdf\"\r\n\r\n"
    )
}
