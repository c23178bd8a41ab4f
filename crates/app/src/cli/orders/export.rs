//! Writes an order and its documents into a folder.

use std::{io::Write as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use domain::{
    document::{Sha256Digest, StoredDocument},
    order::OrderId,
    ports::BlobStore,
};
use futures_util::TryStreamExt as _;
use sha2::{Digest as _, Sha256};

use super::operator::Operator;
use crate::{
    adapters::open_blobs,
    cli::output::print,
    private_files::{create_empty_folder, create_file, sync},
};

/// The file with everything but the documents.
const ORDER: &str = "order.json";

impl Operator {
    /// Writes the documents, each under its position and its name, and then the order: a folder
    /// without it is not complete.
    pub(super) async fn export(&self, id: OrderId, folder: &Path) -> Result<()> {
        let order = self.order(id).await?;
        create_empty_folder(folder)?;
        let blobs = open_blobs(&self.settings).await?;
        for (position, document) in order.documents.iter().enumerate() {
            let file = folder.join(format!("{position:02}-{}", document.name));
            write(&*blobs, document, &file).await.with_context(|| {
                format!("document {position} of order {} was not written", id.0)
            })?;
        }
        let file = folder.join(ORDER);
        let json = self.json(&order)?;
        create_file(&file)
            .and_then(|mut created| {
                created.write_all(json.as_bytes())?;
                created.sync_all()
            })
            .with_context(|| file.display().to_string())?;
        sync(folder)?;
        print(&format!("order {} and {} documents are exported\n", id.0, order.documents.len()))
    }
}

/// Writes a document in blocks, durably, and compares it with its record.
async fn write(blobs: &dyn BlobStore, document: &StoredDocument, path: &Path) -> Result<()> {
    let mut file = create_file(path)?;
    let mut bytes = blobs.get(&document.key, 0..document.size).await?;
    let mut hash = Sha256::new();
    while let Some(block) = bytes.try_next().await? {
        hash.update(&block);
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let sha256 = Sha256Digest(hash.finalize().into());
    ensure!(sha256 == document.sha256, "it is damaged: its SHA-256 is not that of the upload");
    Ok(())
}
