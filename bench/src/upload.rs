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
        concat!(
            r#"{"fileNumber":"F-################","signingDate":"2026-12-01","#,
            r#""signingTimeType":"anytime","timeZoneId":"America/Chicago","#,
            r#""propertyAddress":"1 Main St","signingType":"Purchase","signerName":"Jane Doe","#,
            r#""signerPhone":"5550100199","signerEmail":"jane@example.com","city":"Dallas","#,
            r#""state":"TX","zipcode":"75201"}"#,
        ),
    ),
    ("signingServiceId", "42"),
    ("requestedBy", r#"{"userId":1}"#),
];
const END: &[u8] = b"\r\n--b--\r\n";
/// Bytes per write to the socket.
const CHUNK: usize = 64 * 1024;

/// Creates an incompressible PDF of this size.
pub fn document(bytes: usize) -> Vec<u8> {
    let mut document = vec![0; bytes];
    fastrand::Rng::with_seed(1).fill(&mut document);
    document[..9].copy_from_slice(b"%PDF-1.7\n");
    document
}

/// A form with copies of one document.
#[derive(Clone)]
pub struct Form<'a> {
    /// Head of the request and the text parts.
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
        let length = texts.len() + documents * (part_head(0).len() + document.len()) - "\r\n".len()
            + END.len();
        let begin = Request::new(&format!(
            "POST /api/order/create-with-documents HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {key}\r\n\
             Content-Type: multipart/form-data; boundary=b\r\n\
             Content-Length: {length}\r\n\r\n{texts}"
        ));
        Self { begin, documents, document }
    }

    /// Uploads a new order each time. Calls `pause` after each chunk.
    pub fn upload(&mut self, connection: &mut Connection, pause: impl Fn()) -> io::Result<Answer> {
        connection.send(self.begin.next())?;
        for at in 0..self.documents {
            let head = part_head(at);
            // Text parts end with a line break, documents do not.
            connection.send(if at == 0 { &head.as_bytes()[2..] } else { head.as_bytes() })?;
            for chunk in self.document.chunks(CHUNK) {
                connection.send(chunk)?;
                pause();
            }
        }
        connection.send(END)?;
        connection.answer()
    }
}

/// Returns the head of a document part, with the delimiter before it.
fn part_head(at: usize) -> String {
    format!(
        "\r\n--b\r\nContent-Disposition: form-data; name=\"documents\"; \
         filename=\"{at:02}.pdf\"\r\n\r\n"
    )
}
