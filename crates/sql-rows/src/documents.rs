//! Rows of documents.

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    document::{DocumentKind, ObjectKey, Sha256Digest, StoredDocument},
    order::{
        DocumentId, OrderId,
        change::{AddedDocument, DocumentBefore, WithdrawnDocument},
    },
    ports::Cause,
};

use crate::{
    Unreadable, Utc, digest,
    people::{doer_of, stored_doer},
    schema::documents,
    text::{Lossy, LossyNullable},
};

/// Selects a document.
#[auto_type(no_type_alias)]
pub fn document_row(document: DocumentId) -> _ {
    let id: i64 = document.order.0;
    let signed: bool = is_signed(document.kind);
    let position: i32 = stored_position(document.position);
    documents::table.find((id, signed, position))
}

/// Selects a document that the other side has not downloaded yet.
#[auto_type(no_type_alias)]
pub fn not_downloaded_before(document: DocumentId, at: Utc) -> _ {
    let id: i64 = document.order.0;
    let signed: bool = is_signed(document.kind);
    let position: i32 = stored_position(document.position);
    // Two instances store the downloads that they have seen.
    let is_later = documents::first_downloaded_at.gt(at);
    documents::table
        .find((id, signed, position))
        .filter(documents::first_downloaded_at.is_null().or(is_later))
}

pub(crate) fn is_signed(kind: DocumentKind) -> bool {
    kind == DocumentKind::Signed
}

/// Returns how a position is stored. No document has one below 0.
pub(crate) fn stored_position(position: u32) -> i32 {
    i32::try_from(position).unwrap_or(-1)
}

/// The columns of a document that a decision needs.
#[derive(Queryable, Selectable)]
#[diesel(table_name = documents)]
pub struct DocumentBeforeRow {
    order_id: i64,
    signed: bool,
    position: i32,
    #[diesel(deserialize_as = LossyNullable)]
    key: Option<String>,
    #[diesel(deserialize_as = Lossy)]
    name: String,
    sha256: Vec<u8>,
    added_at: Option<Utc>,
    replaced_by: Option<i32>,
}

impl DocumentBeforeRow {
    /// Returns the document.
    pub fn into_document(self) -> Result<DocumentBefore, Unreadable> {
        let order_id = self.order_id;
        let unreadable = |column: &str| Unreadable::new("documents of order", &order_id, &column);
        let position = |position: i32| u32::try_from(position).map_err(|_| unreadable("position"));
        Ok(DocumentBefore {
            kind: if self.signed { DocumentKind::Signed } else { DocumentKind::ToSign },
            position: position(self.position)?,
            replaced_by: self.replaced_by.map(position).transpose()?,
            key: self.key.map(ObjectKey::from_stored),
            name: self.name,
            sha256: Sha256Digest(digest(self.sha256, || unreadable("sha256"))?),
            added_at: self.added_at.map(|at| at.0),
        })
    }
}

/// Selects the documents of an order of one kind, or of both.
#[auto_type(no_type_alias)]
pub fn documents_before(order: OrderId, kinds: &[DocumentKind]) -> _ {
    let order: i64 = order.0;
    let signed: Vec<bool> = signed_flags(kinds);
    documents::table
        .filter(documents::order_id.eq(order).and(documents::signed.eq_any(signed)))
        .order((documents::signed, documents::position))
}

fn signed_flags(kinds: &[DocumentKind]) -> Vec<bool> {
    kinds.iter().copied().map(is_signed).collect()
}

/// The columns of a document that is withdrawn.
#[derive(AsChangeset)]
#[diesel(table_name = documents, treat_none_as_null = true)]
pub struct WithdrawnColumns {
    key: Option<String>,
    name: String,
    name_as_sent: &'static str,
    withdrawn_at: Option<Utc>,
    is_erased: bool,
}

impl WithdrawnColumns {
    /// Returns the columns of a document that is withdrawn at an instant.
    pub(crate) fn of(document: &WithdrawnDocument, at: Option<Utc>) -> Self {
        Self {
            key: None,
            name: document.name.clone(),
            name_as_sent: "",
            withdrawn_at: at,
            is_erased: document.is_erased,
        }
    }
}

/// A document of an order.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = documents, treat_none_as_default_value = false)]
#[expect(missing_docs, reason = "the columns, which the migrations describe")]
pub struct DocumentRow {
    pub order_id: i64,
    pub position: i32,
    pub key: Option<String>,
    pub name: String,
    pub name_as_sent: String,
    pub media_type: String,
    pub size: i64,
    pub sha256: Vec<u8>,
    pub added_at: Option<Utc>,
    pub signed: bool,
    pub replaced_by: Option<i32>,
    pub withdrawn_at: Option<Utc>,
    pub is_erased: bool,
    pub first_downloaded_at: Option<Utc>,
    pub crc32: Option<i64>,
    pub doer: Option<i64>,
}

impl DocumentRow {
    pub(crate) fn new(position: i32, document: &StoredDocument) -> Result<Self, Cause> {
        Ok(Self {
            order_id: 0,
            position,
            key: document.key.as_ref().map(|key| key.as_str().to_owned()),
            name: document.name.clone(),
            name_as_sent: document.name_as_sent.clone(),
            media_type: document.media_type.clone(),
            size: i64::try_from(document.size)?,
            sha256: document.sha256.0.to_vec(),
            added_at: None,
            signed: false,
            replaced_by: None,
            withdrawn_at: None,
            is_erased: false,
            first_downloaded_at: None,
            crc32: document.crc32.map(i64::from),
            doer: document.by.map(stored_doer),
        })
    }

    /// Returns the row of a document that an order gets.
    pub(crate) fn added(order: OrderId, added: &AddedDocument) -> Result<Self, Cause> {
        let AddedDocument { kind, position, document } = added;
        Ok(Self {
            order_id: order.0,
            added_at: Some(Utc(document.created_at)),
            signed: *kind == DocumentKind::Signed,
            ..Self::new(i32::try_from(*position)?, document)?
        })
    }

    /// Returns the document of an order that was created at `order_created_at`.
    pub fn into_document(self, order_created_at: Utc) -> Result<StoredDocument, Unreadable> {
        let unreadable =
            |column: &str| Unreadable::new("documents of order", &self.order_id, &column);
        Ok(StoredDocument {
            key: self.key.map(ObjectKey::from_stored),
            name: self.name,
            name_as_sent: self.name_as_sent,
            media_type: self.media_type,
            size: u64::try_from(self.size).map_err(|_| unreadable("size"))?,
            created_at: self.added_at.unwrap_or(order_created_at).0,
            sha256: Sha256Digest(digest(self.sha256, || unreadable("sha256"))?),
            crc32: self
                .crc32
                .map(|crc32| u32::try_from(crc32).map_err(|_| unreadable("crc32")))
                .transpose()?,
            replaced_by: self
                .replaced_by
                .map(|position| u32::try_from(position).map_err(|_| unreadable("replaced_by")))
                .transpose()?,
            withdrawn_at: self.withdrawn_at.map(|at| at.0),
            is_erased: self.is_erased,
            first_downloaded_at: self.first_downloaded_at.map(|at| at.0),
            by: self.doer.map(doer_of),
        })
    }
}
