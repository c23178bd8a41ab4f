//! The events of an order, and the data that webhooks and mails get with them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    SigningServiceId,
    record::OrderColumns,
    stored::{Actor, Notary, OrderStatus, StoredOrder},
};
use crate::api_key::{ClientId, Party};

conceal!(MailContent, NoteThen, NotaryThen);

/// Most bytes of the notes of one mail. Further ones have another.
pub const MAX_NOTES_OF_A_MAIL: usize = 64 * 1024;

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// An order was created.
    OrderCreated,
    /// Documents were added to an order.
    DocumentsAdded,
    /// The status or the notary of an order changed.
    OrderUpdated,
    /// An order was cancelled.
    OrderCancelled,
    /// The client changed an order.
    OrderChanged,
    /// A note was added to an order.
    NoteAdded,
    /// The signing service added signed documents to an order.
    SignedDocumentsAdded,
    /// The client replaced a document of an order.
    DocumentsReplaced,
    /// A side withdrew a document from an order.
    DocumentWithdrawn,
    /// An order was erased.
    OrderErased,
    /// The client or an operator asked for a test.
    Test,
}

impl EventType {
    /// The events of orders: those that an endpoint can choose.
    pub const OF_ORDERS: [Self; 10] = [
        Self::OrderCreated,
        Self::DocumentsAdded,
        Self::OrderUpdated,
        Self::OrderCancelled,
        Self::OrderChanged,
        Self::NoteAdded,
        Self::SignedDocumentsAdded,
        Self::DocumentsReplaced,
        Self::DocumentWithdrawn,
        Self::OrderErased,
    ];

    /// Every event: those of orders, and the test.
    pub const ALL: [Self; Self::OF_ORDERS.len() + 1] = {
        let [one, two, three, four, five, six, seven, eight, nine, ten] = Self::OF_ORDERS;
        [one, two, three, four, five, six, seven, eight, nine, ten, Self::Test]
    };

    /// Returns the name, in payloads, answers and storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OrderCreated => "order.created",
            Self::DocumentsAdded => "order.documents_added",
            Self::OrderUpdated => "order.updated",
            Self::OrderCancelled => "order.cancelled",
            Self::OrderChanged => "order.changed",
            Self::NoteAdded => "order.note_added",
            Self::SignedDocumentsAdded => "order.signed_documents_added",
            Self::DocumentsReplaced => "order.documents_replaced",
            Self::DocumentWithdrawn => "order.document_withdrawn",
            Self::OrderErased => "order.erased",
            Self::Test => "webhook.test",
        }
    }

    /// Returns the event type of a name; `None` if it is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }
}

/// The data of an event besides the order. Its JSON is part of the stored format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EventChange {
    /// A change of status or notary.
    Order(ChangedOrder),
    /// A change by the client.
    Fields {
        /// The changed fields, as JSON Pointers.
        changed: Vec<String>,
    },
    /// A note.
    Note {
        /// The side that wrote it.
        author: Actor,
    },
    /// A change of documents.
    Documents {
        /// Their positions.
        documents: Vec<u32>,
        /// The side that uploads documents of their kind.
        actor: Actor,
    },
    /// The erasure of the order.
    Erased(ErasedFrom),
}

impl EventChange {
    /// Returns the change of status or notary; `None` for an event of something else.
    pub fn order(&self) -> Option<&ChangedOrder> {
        match self {
            Self::Order(change) => Some(change),
            Self::Fields { .. } | Self::Note { .. } | Self::Documents { .. } | Self::Erased(_) => {
                None
            }
        }
    }

    /// Returns the sides of an erased order; `None` for an event of something else.
    pub fn erased(&self) -> Option<&ErasedFrom> {
        if let Self::Erased(erased) = self { Some(erased) } else { None }
    }
}

/// The sides that an erased order had, which its event cannot read from the order. Its JSON is part of the
/// stored format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasedFrom {
    /// The client.
    pub client_id: i64,
    /// The signing service.
    pub signing_service_id: i64,
    /// Whether a test key created the order.
    pub is_test: bool,
}

impl ErasedFrom {
    /// Returns both sides.
    pub fn parties(&self) -> [Party; 2] {
        let service = SigningServiceId(self.signing_service_id);
        [Party::Client(ClientId(self.client_id)), Party::Service(service)]
    }
}

/// The order after a change of status or notary, as its event tells it. The database writes
/// it, so its JSON is part of the stored format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedOrder {
    /// The status after the change.
    pub order_status: String,
    /// The status before it.
    pub previous_status: String,
    /// The notary after it.
    pub notary_id: Option<i64>,
    /// The side that made it.
    pub actor: Actor,
    /// Whether the notary is another one than before. `None`: an event that waited while the service was upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary_changed: Option<bool>,
}

impl ChangedOrder {
    /// Returns whether a cancelled order takes place again.
    pub fn reinstates(&self) -> bool {
        let cancelled = OrderStatus::CANCELLED;
        self.previous_status == cancelled.as_str() && self.order_status != cancelled.as_str()
    }
}

/// The content of a mail besides the order. It has values of an order, so it is in no webhook and no history.
/// Its JSON is part of the stored format.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailContent {
    /// The order before a change.
    Previous(OrderColumns),
    /// A note.
    Note {
        /// The side that wrote it.
        author: Actor,
        /// Its text.
        text: String,
    },
    /// Several notes, the oldest first.
    Notes(Vec<NoteThen>),
    /// The positions of the documents that arrived, or were withdrawn.
    Documents(Vec<u32>),
    /// The notary after a change of status or notary. The database writes it.
    Notary(NotaryThen),
}

/// A note that a mail tells.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteThen {
    /// The side that wrote it.
    pub author: Actor,
    /// Its text.
    pub text: String,
}

impl MailContent {
    /// Returns the content of one mail with the news of both: the values before the first change, all
    /// documents or notes, and the last notary. `None` if they do not belong together, or are too much.
    pub(crate) fn joined(&self, later: &Self) -> Option<Self> {
        match (self, later) {
            (Self::Previous(_), Self::Previous(_)) => return Some(self.clone()),
            (Self::Documents(first), Self::Documents(later)) => {
                let all: BTreeSet<u32> = first.iter().chain(later).copied().collect();
                return Some(Self::Documents(all.into_iter().collect()));
            }
            // The mail names the last notary.
            (Self::Notary(_), Self::Notary(_)) => return Some(later.clone()),
            _ => {}
        }
        let (first, later) = (self.notes(), later.notes());
        let are_notes = !first.is_empty() && !later.is_empty();
        let notes = [first, later].concat();
        let length: usize = notes.iter().map(|note| note.text.len()).sum();
        (are_notes && length <= MAX_NOTES_OF_A_MAIL).then_some(Self::Notes(notes))
    }

    /// Returns the notes, the oldest first.
    pub fn notes(&self) -> Vec<NoteThen> {
        match self {
            Self::Note { author, text } => {
                vec![NoteThen { author: *author, text: text.clone() }]
            }
            Self::Notes(notes) => notes.clone(),
            Self::Previous(_) | Self::Documents(_) | Self::Notary(_) => Vec::new(),
        }
    }
}

/// The notary of an order at the instant of a change: a mail may wait while the order gets another one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotaryThen {
    /// The number.
    pub notary_id: Option<i64>,
    /// Who it was.
    pub notary: Option<Notary>,
}

impl NotaryThen {
    /// Returns whether the order still has this notary.
    pub fn is_of(&self, order: &StoredOrder) -> bool {
        self.notary_id == order.notary_id && self.notary == order.notary
    }
}
