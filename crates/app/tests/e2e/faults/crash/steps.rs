//! The steps of both sides with an order after its creation. A repeat of a step changes nothing.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, StatusCode, multipart::Form};
use serde_json::{Value, json};

use crate::{
    faults::crash::clients::TestOrder,
    harness::{Api, file, order},
};

/// The address of the signing service, which gets mails of all orders.
pub const DISPATCHER: &str = "dispatch@service.example.com";

/// The news of a mail: the number of the order, the beginning of the subject, and the address.
pub type News = (usize, String, String);

/// The news of a cancellation, and that of the creation.
pub const CANCELLED: &str = "Order cancelled";
pub const CREATED: &str = "New order";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The client names the lender.
    Change,
    /// The signing service assigns a notary.
    Assign,
    /// The signing service confirms the appointment.
    Confirm,
    /// The client writes a note.
    Ask,
    /// The signing service writes a note.
    Answer,
    /// The client replaces its first document.
    Replace,
    /// The signing service returns two signed documents.
    Sign,
    /// The client withdraws its first document, which is replaced.
    Withdraw,
    /// The signing service withdraws its second document.
    WithdrawSigned,
    /// The client cancels the order, and does nothing else.
    Cancel,
}

impl Step {
    /// The steps of an order that takes place.
    const ALL: [Self; 9] = [
        Self::Change,
        Self::Assign,
        Self::Confirm,
        Self::Ask,
        Self::Replace,
        Self::Sign,
        Self::Withdraw,
        Self::Answer,
        Self::WithdrawSigned,
    ];

    /// Events of the webhooks that steps cause.
    pub const EVENTS: [&str; 7] = [
        "order.changed",
        "order.updated",
        "order.note_added",
        "order.documents_replaced",
        "order.signed_documents_added",
        "order.document_withdrawn",
        "order.cancelled",
    ];

    pub fn event(self) -> &'static str {
        let at = match self {
            Self::Change => 0,
            Self::Assign | Self::Confirm => 1,
            Self::Ask | Self::Answer => 2,
            Self::Replace => 3,
            Self::Sign => 4,
            Self::Withdraw | Self::WithdrawSigned => 5,
            Self::Cancel => 6,
        };
        Self::EVENTS[at]
    }

    /// Returns the entry of the history: its kind and its actor.
    pub fn entry(self) -> Option<[&'static str; 2]> {
        Some(match self {
            Self::Change => ["changed", "client"],
            Self::Assign | Self::Confirm => ["status", "service"],
            Self::Cancel => ["status", "client"],
            Self::Ask | Self::Answer => return None,
            Self::Replace => ["documents_replaced", "client"],
            Self::Sign => ["signed_documents_added", "service"],
            Self::Withdraw => ["withdrawn", "client"],
            Self::WithdrawSigned => ["withdrawn", "service"],
        })
    }

    fn is_of_service(self) -> bool {
        matches!(
            self,
            Self::Assign | Self::Confirm | Self::Answer | Self::Sign | Self::WithdrawSigned
        )
    }

    pub fn success(self) -> StatusCode {
        match self {
            Self::Change | Self::Assign | Self::Confirm | Self::Cancel => StatusCode::OK,
            Self::Withdraw | Self::WithdrawSigned => StatusCode::NO_CONTENT,
            _ => StatusCode::CREATED,
        }
    }
}

impl TestOrder {
    /// Returns what happens to the order: nothing for one of eight, a cancellation for another one, and no document
    /// is replaced in an order without documents.
    pub fn steps(self) -> Vec<Step> {
        if self.0 % 8 == 4 {
            return vec![Step::Cancel];
        }
        let has_documents = !self.documents().is_empty();
        let needs_documents = |step: &Step| matches!(step, Step::Replace | Step::Withdraw);
        let steps = Step::ALL.into_iter().filter(|_| !self.0.is_multiple_of(8));
        steps.filter(|step| has_documents || !needs_documents(step)).collect()
    }

    /// Returns the status after these steps.
    pub fn status_after(steps: &[Step]) -> &'static str {
        let status = |step: &Step| match step {
            Step::Assign => Some("ASSIGNED"),
            Step::Confirm => Some("CONFIRMED"),
            Step::Cancel => Some("CANCELLED"),
            _ => None,
        };
        steps.iter().filter_map(status).next_back().unwrap_or("NEW")
    }

    /// Returns the news after these steps, each with whether it must have a mail. One of a cancelled order need not
    /// leave any more, one with all fields tells a change, too, and no side has fetched what is withdrawn.
    pub fn news_after(self, steps: &[Step]) -> Vec<(News, bool)> {
        let (contact, dispatcher) = (self.contact(), DISPATCHER.to_owned());
        let takes_place = !steps.contains(&Step::Cancel);
        let both = [&contact, &dispatcher];
        let mut news: Vec<_> = both.iter().map(|to| (CREATED, *to, takes_place)).collect();
        for step in steps {
            match step {
                Step::Change => news.extend(both.map(|to| ("Order changed", to, false))),
                Step::Cancel => news.extend(both.map(|to| (CANCELLED, to, false))),
                Step::Assign => news.push(("Notary assigned", &contact, true)),
                Step::Confirm => news.push(("Appointment confirmed", &contact, true)),
                Step::Ask => news.push(("New note", &dispatcher, true)),
                Step::Answer => news.push(("New note", &contact, true)),
                Step::Replace => news.push(("Document replaced", &dispatcher, true)),
                Step::Sign => news.push(("Signed documents", &contact, true)),
                Step::Withdraw | Step::WithdrawSigned => {}
            }
        }
        let owned = |(subject, to, must): (&str, &String, bool)| {
            ((self.0, subject.to_owned(), to.clone()), must)
        };
        news.into_iter().map(owned).collect()
    }

    /// Returns the contents of all documents after these steps, those of the client first, each with
    /// whether it is withdrawn.
    pub fn documents_after(self, steps: &[Step]) -> [Vec<(Vec<u8>, bool)>; 2] {
        let mut own: Vec<_> = self.documents().into_iter().map(|it| (it, false)).collect();
        let mut signed = Vec::new();
        for step in steps {
            match step {
                Step::Replace => own.push((self.replacement(), false)),
                Step::Sign => signed.extend(self.signed().map(|it| (it, false))),
                Step::Withdraw => own[0].1 = true,
                Step::WithdrawSigned => signed[1].1 = true,
                _ => {}
            }
        }
        [own, signed]
    }

    /// Returns the paths of the documents that these steps withdraw.
    pub fn withdrawn_by(steps: &[Step]) -> Vec<&'static str> {
        let path = |step: &Step| match step {
            Step::Withdraw => Some("/documents/0"),
            Step::WithdrawSigned => Some("/signed-documents/1"),
            _ => None,
        };
        steps.iter().filter_map(path).collect()
    }

    /// Returns the author and the text of each note after these steps.
    pub fn notes_after(self, steps: &[Step]) -> Vec<[String; 2]> {
        let note = |step: &Step| match step {
            Step::Ask => Some(["client".to_owned(), self.note(Step::Ask)]),
            Step::Answer => Some(["service".to_owned(), self.note(Step::Answer)]),
            _ => None,
        };
        steps.iter().filter_map(note).collect()
    }

    pub fn lender(self) -> String {
        format!("Lender {}", self.0)
    }

    fn note(self, step: Step) -> String {
        format!("{step:?} {}", self.0)
    }

    fn replacement(self) -> Vec<u8> {
        self.document(6)
    }

    fn signed(self) -> [Vec<u8>; 2] {
        [7, 8].map(|position| self.document(position))
    }

    /// Returns the request of a step to an order with an identifier.
    pub fn step(self, step: Step, id: i64, client: &Api, service_key: &str) -> RequestBuilder {
        let service = client.as_key(service_key);
        let side = if step.is_of_service() { &service } else { client };
        let request = |method: Method, path: &str| {
            let request = side.request(method, &format!("/api/order/{id}{path}"));
            request.timeout(Duration::from_secs(60))
        };
        let post = |path: &str| {
            let key = format!("crash-{step:?}-{:020}", self.0);
            request(Method::POST, path).header("Idempotency-Key", key)
        };
        let form = |documents: Vec<Vec<u8>>| {
            let add = |form: Form, it| form.part("documents", file("it.pdf", it));
            documents.into_iter().fold(Form::new(), add)
        };
        match step {
            Step::Change => request(Method::PUT, "").json(&self.changed()),
            Step::Assign => request(Method::PATCH, "")
                .json(&json!({ "order_status": "ASSIGNED", "notary_id": self.notary() })),
            Step::Confirm => {
                request(Method::PATCH, "").json(&json!({ "order_status": "CONFIRMED" }))
            }
            Step::Cancel => request(Method::POST, "/cancel"),
            Step::Ask | Step::Answer => post("/notes").json(&json!({ "text": self.note(step) })),
            Step::Replace => {
                post("/documents").multipart(form(vec![self.replacement()]).text("replaces", "0"))
            }
            Step::Sign => post("/signed-documents").multipart(form(self.signed().into())),
            Step::Withdraw => request(Method::DELETE, "/documents/0"),
            Step::WithdrawSigned => request(Method::DELETE, "/signed-documents/1"),
        }
    }

    fn changed(self) -> Value {
        let mut order = order(&self.file_number());
        order["signingContactsFormData"]["orderContactEmail"] = self.contact().into();
        order["signingDetailsFormData"]["lender"] = self.lender().into();
        order
    }
}
