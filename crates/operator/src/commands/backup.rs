//! Backup and restore of an embedded service: its database, and the documents of its orders.
//!
//! A backup is a folder with the database, the documents, the key of the secrets of webhooks, and a
//! manifest. The database is copied first. A document is stored before its order is, and stays until it
//! is withdrawn or erased; then the database is copied again. The manifest is written last: a backup
//! without one is not complete.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read as _, Write},
    mem,
    path::{Component, Path, PathBuf},
};

use adapter_sqlite::{CopiedDocument, DatabaseCopy, Totals};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use domain::document::Sha256Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    adapters::{create_data_dir, describe_orphans, document_store},
    commands::output::{mib, print},
    private_files::{
        BACKUP_DATABASE as DATABASE, BACKUP_MANIFEST as MANIFEST, adopt, check_empty,
        create_empty_folder, create_file, create_folder, replace_file, sync,
    },
    progress::{Progress, counted},
    secrets_key,
    settings::{Database, Settings, WrongSetting, checked},
};

const DOCUMENTS: &str = "documents";

/// Version of the layout of a backup.
const FORMAT: u32 = 1;

/// Documents that one query reads.
const PAGE: u32 = 1_000;

/// Says what a complete backup holds.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// Version of the program that made the backup.
    program: String,
    /// Instant of the backup, RFC 3339.
    created_at: String,
    database: FileFacts,
    orders: i64,
    documents: i64,
    document_bytes: i64,
}

/// Size and hash of a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileFacts {
    bytes: u64,
    sha256: String,
}

/// Copies the database and its documents into an empty folder. A service may run on them.
pub(crate) fn back_up(
    settings: &Settings,
    folder: &Path,
    now: OffsetDateTime,
    progress: &Progress,
) -> Result<()> {
    let (source_file, documents) = places(settings)?;
    let source = source_file.display();
    // Opening a database creates it.
    ensure!(source_file.is_file(), WrongSetting(anyhow!("there is no database at {source}")));
    create_empty_folder(folder)?;
    print(&format!("copying the database {source}\n"))?;
    let file = folder.join(DATABASE);
    let (mut copied, mut missing) = (BTreeSet::new(), Vec::new());
    let totals = loop {
        let mut database = DatabaseCopy::make(&source_file, &file)
            .with_context(|| format!("the database {source} was not copied"))?;
        adopt(&file);
        let totals = database.totals()?;
        let to = folder.join(DOCUMENTS);
        let gone = copy_documents(&mut database, totals, &documents, &to, &mut copied, progress)?;
        if gone.is_empty() {
            break totals;
        }
        // A later copy of the database does not name what was withdrawn or erased meanwhile.
        if let Some(key) = gone.iter().find(|key| missing.contains(*key)) {
            bail!("the document {key} is missing");
        }
        missing = gone;
        drop(database);
        fs::remove_file(&file)?;
    };
    copy_key(&settings.in_data_dir(secrets_key::FILE), &folder.join(secrets_key::FILE))?;
    let manifest = Manifest {
        format: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: now.truncate_to_second().format(&Rfc3339)?,
        database: File::open(&file)
            .and_then(|file| copy_bytes(file, &mut io::sink()))
            .with_context(|| file.display().to_string())?,
        orders: totals.orders,
        documents: totals.documents,
        document_bytes: totals.document_bytes,
    };
    let text = serde_json::to_string_pretty(&manifest)? + "\n";
    replace_file(&folder.join(MANIFEST), text.as_bytes())
        .with_context(|| folder.display().to_string())?;
    print(&format!("the backup is complete: {}\n", describe(totals)))
}

/// Puts a backup into an empty data directory. Checks the database and every document.
pub(crate) fn restore(settings: &Settings, folder: &Path, progress: &Progress) -> Result<()> {
    let (database, documents) = places(settings)?;
    let manifest = read_manifest(folder)?;
    check_empty(&settings.data_dir)?;
    check_empty(&documents)?;
    ensure!(!database.exists(), "there is a database at {}", database.display());
    create_data_dir(settings)?;
    // The database gets its name last, so that no service starts on a part of a backup.
    let unfinished = database.with_extension("restoring");
    print(&format!("copying the database of {}\n", manifest.created_at))?;
    let copied = copy_file(&folder.join(DATABASE), &unfinished)
        .with_context(|| format!("the database was not copied to {}", database.display()))?;
    ensure!(copied == manifest.database, "the database of the backup is damaged");
    let mut copy = DatabaseCopy::open(&unfinished)?;
    let totals = copy.totals()?;
    // The backup of another version may lack a table.
    let orphans = copy.orphans().unwrap_or_default();
    let from = folder.join(DOCUMENTS);
    let mut copied = BTreeSet::new();
    let gone = copy_documents(&mut copy, totals, &from, &documents, &mut copied, progress)?;
    if let Some(key) = gone.first() {
        bail!("the document {key} is missing in the backup");
    }
    drop(copy);
    copy_key(&folder.join(secrets_key::FILE), &settings.in_data_dir(secrets_key::FILE))?;
    fs::rename(&unfinished, &database)?;
    database.parent().map_or(Ok(()), sync)?;
    if !orphans.is_empty() {
        print(&format!("the backup has {}\n", describe_orphans(&orphans)))?;
    }
    print(&format!(
        "the backup is restored: {}\nIt takes orders, and sends no mails and webhooks until `notary-orders \
         adopt`\n",
        describe(totals)
    ))
}

/// Copies the key of the secrets of webhooks, if there is one: it may be a setting, or belong to an
/// older version.
fn copy_key(from: &Path, to: &Path) -> Result<()> {
    if from.exists() {
        copy_file(from, to).with_context(|| from.display().to_string())?;
    }
    Ok(())
}

fn describe(totals: Totals) -> String {
    let Totals { orders, documents, document_bytes } = totals;
    let (orders, documents) = (counted(&orders, "order"), counted(&documents, "document"));
    format!("{orders}, {documents} of {}", mib(document_bytes))
}

/// Returns the database and the folder of documents of an embedded service. Other databases and
/// document stores have tools of their own, which the error names.
fn places(settings: &Settings) -> Result<(PathBuf, PathBuf)> {
    let Database::Sqlite(database) = settings.database()? else {
        bail!(
            "the database is PostgreSQL: use pg_dump or pg_basebackup, then copy the documents; \
             docs/operations.md shows the commands"
        );
    };
    if settings.documents().is_none() {
        // It may be wrong, too.
        document_store(settings)?;
    }
    let documents = settings.documents().context(
        "the documents are in a bucket: copy the database with sqlite3 and VACUUM INTO, then the \
         bucket with rclone or the tool of its provider; docs/operations.md shows the commands",
    )?;
    Ok((database, documents))
}

/// Copies every document of a database unless it is already `copied`, and compares size and hash with its
/// row. Removes those that were copied and that the database does not name any more. Returns the keys of
/// documents that are missing.
fn copy_documents(
    database: &mut DatabaseCopy,
    totals: Totals,
    from: &Path,
    to: &Path,
    copied: &mut BTreeSet<String>,
    progress: &Progress,
) -> Result<Vec<String>> {
    create_folder(to)?;
    let mut folders = BTreeSet::from([to.to_owned()]);
    let (mut last, mut missing) = (String::new(), Vec::new());
    let mut before = mem::take(copied);
    loop {
        let page = database.documents(&last, PAGE)?;
        if page.is_empty() {
            break;
        }
        for document in page {
            document.key.as_str().clone_into(&mut last);
            if before.remove(&last) || copy_document(&document, from, to, &mut folders)? {
                copied.insert(last.clone());
            } else {
                missing.push(last.clone());
            }
            let all = counted(&totals.documents, "document");
            progress.set(format!("copied {} of {all}", copied.len()));
        }
    }
    for key in before {
        fs::remove_file(to.join(key))?;
    }
    // `create_folder` has made their own entries durable.
    folders.iter().try_for_each(|folder| sync(folder))?;
    Ok(missing)
}

/// Copies a document, and creates its folder below `to` unless it is in the set. Returns `false` if it is
/// missing.
fn copy_document(
    document: &CopiedDocument,
    from: &Path,
    to: &Path,
    folders: &mut BTreeSet<PathBuf>,
) -> Result<bool> {
    let key = document.key.as_str();
    let file = to.join(key);
    // A backup may come from anywhere.
    let is_below = Path::new(key).components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(is_below, "the database names a document outside of its folder");
    let folder = file.parent().unwrap_or(to);
    if folders.insert(folder.to_owned()) {
        create_folder(folder)?;
    }
    let source = from.join(key);
    let copied = match copy_file(&source, &file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !source.exists() => {
            return Ok(false);
        }
        copied => copied.with_context(|| format!("the document {key}"))?,
    };
    ensure!(
        copied == FileFacts { bytes: document.size, sha256: document.sha256.to_string() },
        "the document {key} is damaged: its size or its SHA-256 is not that of the upload"
    );
    Ok(true)
}

/// Copies a file durably into a new file that only its owner can read.
fn copy_file(from: &Path, to: &Path) -> io::Result<FileFacts> {
    let file = File::open(from)?;
    let mut copy = create_file(to)?;
    let facts = copy_bytes(file, &mut copy)?;
    copy.sync_all()?;
    Ok(facts)
}

fn copy_bytes(mut file: File, to: &mut impl Write) -> io::Result<FileFacts> {
    let mut hash = Sha256::new();
    let (mut block, mut bytes) = (vec![0; 256 * 1024], 0);
    loop {
        let count = file.read(&mut block)?;
        if count == 0 {
            let sha256 = Sha256Digest(hash.finalize().into()).to_string();
            return Ok(FileFacts { bytes, sha256 });
        }
        hash.update(&block[..count]);
        to.write_all(&block[..count])?;
        bytes += count as u64;
    }
}

fn read_manifest(folder: &Path) -> Result<Manifest> {
    let path = folder.join(MANIFEST);
    let text = checked(
        fs::read_to_string(&path),
        format!("{} is no complete backup: {MANIFEST}", folder.display()),
    )?;
    let manifest = serde_json::from_str::<Manifest>(&text);
    let manifest = manifest.with_context(|| path.display().to_string())?;
    ensure!(manifest.format == FORMAT, "the backup has the unknown format {}", manifest.format);
    Ok(manifest)
}
