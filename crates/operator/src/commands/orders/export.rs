//! Writes an order, its documents and its accesses into a folder.

use std::{io::Write as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use domain::{
    access::AccessKind,
    document::{ObjectKey, Sha256Digest, StoredDocument},
    order::{OrderId, StoredOrder},
    ports::BlobStore,
};
use futures_util::TryStreamExt as _;
use sha2::{Digest as _, Sha256};

use crate::commands::{orders::operator::Operator, output::print};
use crate::{
    adapters::open_blobs,
    private_files::{create_empty_folder, create_file, replace_file},
    progress::{Progress, counted},
};

/// The file with everything but the documents and the accesses.
const ORDER: &str = "order.json";

/// The file with the accesses.
const ACCESSES: &str = "accesses.json";

impl Operator {
    pub(in crate::commands) async fn export(&self, id: OrderId, folder: &Path) -> Result<()> {
        let access = self.recording.begin(AccessKind::Export, id);
        let progress = Progress::new("exporting");
        let found = self.order(id).await;
        let begun = found.and_then(|order| create_empty_folder(folder).map(|()| order));
        // Recorded before the first file is written: a command that is killed has left files.
        let order = self.recorded(access, begun).await?;
        let written = progress.of(self.write_order(&order, folder, &progress)).await?;
        let written = counted(&written, "document");
        print(&format!("order {} and {written} are exported\n", id.0))
    }

    /// Writes the documents that are not withdrawn, each under its position and its name, the accesses of
    /// the order, and then the order: a folder without it is not complete. Returns the number of documents.
    async fn write_order(
        &self,
        order: &StoredOrder,
        folder: &Path,
        progress: &Progress,
    ) -> Result<usize> {
        let id = order.id;
        let blobs = open_blobs(&self.settings).await?;
        let mut written = 0;
        for (prefix, what, documents) in [
            ("", "document", &order.documents),
            ("signed-", "signed document", &order.signed_documents),
        ] {
            for (position, document) in documents.iter().enumerate() {
                let Some(key) = &document.key else { continue };
                progress.set(format!("writing {what} {position} of {}", documents.len()));
                let file = folder.join(format!("{prefix}{position:02}-{}", document.name));
                write(&*blobs, key, document, &file).await.with_context(|| {
                    format!("{what} {position} of order {} was not written", id.0)
                })?;
                written += 1;
            }
        }
        for (name, text) in
            [(ACCESSES, self.accesses_json(id).await?), (ORDER, self.json(order).await?)]
        {
            let file = folder.join(name);
            replace_file(&file, text.as_bytes()).with_context(|| file.display().to_string())?;
        }
        Ok(written)
    }
}

/// Writes a document in blocks, durably, and compares it with its record.
async fn write(
    blobs: &dyn BlobStore,
    key: &ObjectKey,
    document: &StoredDocument,
    path: &Path,
) -> Result<()> {
    let mut file = create_file(path)?;
    let mut bytes = blobs.get(key, 0..document.size).await?.context("the object is missing")?;
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
