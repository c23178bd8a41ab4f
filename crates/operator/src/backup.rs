//! Backup and restore of an embedded service: its database, and the documents of its orders.
//!
//! A backup is a folder with the database, the documents, the key of the secrets of webhooks, and a
//! manifest. The database is copied first. A document is stored before its order is, and stays, so
//! every document of the copied orders is there. The manifest is written last: a backup without one
//! is not complete.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write},
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use adapter_object_store::ObjectBlobStore;
use adapter_sqlite::{CopiedDocument, DatabaseCopy, Totals};
use anyhow::{Context as _, Result, bail, ensure};
use domain::document::Sha256Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    adapters::create_data_dir,
    commands::output::print,
    private_files::{create_empty_folder, create_file, create_folder, is_empty, sync},
    secrets_key,
    settings::{Database, Settings},
};

const MANIFEST: &str = "manifest.json";
const DATABASE: &str = "notary-orders.sqlite";
const DOCUMENTS: &str = "documents";

/// Version of the layout of a backup.
const FORMAT: u32 = 1;

/// Documents that one query reads.
const PAGE: u32 = 1_000;

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);

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

impl FileFacts {
    fn new(bytes: u64, sha256: Sha256Digest) -> Self {
        Self { bytes, sha256: sha256.to_string() }
    }
}

/// Copies the database and its documents into an empty folder. A service may run on them.
pub(crate) fn back_up(settings: &Settings, folder: &Path, now: OffsetDateTime) -> Result<()> {
    let service = Files::of(settings)?;
    let source = service.database.display();
    // Opening a database creates it.
    ensure!(service.database.is_file(), "there is no database at {source}");
    create_empty_folder(folder)?;
    print(&format!("copying the database {source}\n"))?;
    let file = folder.join(DATABASE);
    let mut database = DatabaseCopy::make(&service.database, &file)
        .with_context(|| format!("the database {source} was not copied"))?;
    let totals = database.totals()?;
    let documents = folder.join(DOCUMENTS);
    copy_documents(&mut database, totals, &service.documents, &documents)?;
    drop(database);
    copy_key(&settings.in_data_dir(secrets_key::FILE), &folder.join(secrets_key::FILE))?;
    let manifest = Manifest {
        format: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: now.truncate_to_second().format(&Rfc3339)?,
        database: facts_of(&file).with_context(|| file.display().to_string())?,
        orders: totals.orders,
        documents: totals.documents,
        document_bytes: totals.document_bytes,
    };
    write_manifest(folder, &manifest).with_context(|| folder.display().to_string())?;
    print(&format!("the backup is complete: {}\n", describe(totals)))
}

/// Puts a backup into an empty data directory. Checks the database and every document.
pub(crate) fn restore(settings: &Settings, folder: &Path) -> Result<()> {
    let service = Files::of(settings)?;
    let manifest = read_manifest(folder)?;
    for empty in [&settings.data_dir, &service.documents] {
        ensure!(is_empty(empty)?, "{} is not empty", empty.display());
    }
    let (database, parent) = (&service.database, service.database.parent());
    ensure!(!database.exists(), "there is a database at {}", database.display());
    create_data_dir(settings)?;
    // The database gets its name last, so that no service starts on a part of a backup.
    let mut unfinished = database.clone().into_os_string();
    unfinished.push(".restoring");
    let unfinished = PathBuf::from(unfinished);
    print(&format!("copying the database of {}\n", manifest.created_at))?;
    let copied = copy_file(&folder.join(DATABASE), &unfinished)
        .with_context(|| format!("the database was not copied to {}", database.display()))?;
    ensure!(copied == manifest.database, "the database of the backup is damaged");
    let mut copy = DatabaseCopy::open(&unfinished)?;
    let totals = copy.totals()?;
    copy_documents(&mut copy, totals, &folder.join(DOCUMENTS), &service.documents)?;
    drop(copy);
    copy_key(&folder.join(secrets_key::FILE), &settings.in_data_dir(secrets_key::FILE))?;
    fs::rename(&unfinished, database)?;
    parent.map_or(Ok(()), sync)?;
    print(&format!("the backup is restored: {}\n", describe(totals)))
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
    format!("{orders} orders, {documents} documents of {document_bytes} bytes")
}

/// The files of an embedded service.
struct Files {
    database: PathBuf,
    documents: PathBuf,
}

impl Files {
    /// Returns the files of the settings. Other databases and document stores have tools of their
    /// own, which the error names.
    fn of(settings: &Settings) -> Result<Self> {
        let Database::Sqlite(database) = settings.database()? else {
            bail!(
                "the database is PostgreSQL: use pg_dump or pg_basebackup, then copy the \
                 documents; docs/operations.md shows the commands"
            );
        };
        let documents = match &settings.documents_url {
            None => settings.in_data_dir(DOCUMENTS),
            Some(url) => ObjectBlobStore::folder(url).context(
                "the documents are in a bucket: copy the database with sqlite3 and VACUUM INTO, \
                 then the bucket with rclone or the tool of its provider; docs/operations.md shows \
                 the commands",
            )?,
        };
        Ok(Self { database, documents })
    }
}

/// Copies every document of a database, and compares size and hash with its row.
fn copy_documents(
    database: &mut DatabaseCopy,
    totals: Totals,
    from: &Path,
    to: &Path,
) -> Result<()> {
    let mut folders = BTreeSet::from([to.to_owned()]);
    create_folder(to)?;
    let (mut last, mut copied, mut reported) = (String::new(), 0, Instant::now());
    loop {
        let page = database.documents(&last, PAGE)?;
        let Some(end) = page.last() else { break };
        end.key.as_str().clone_into(&mut last);
        for document in page {
            let file = to.join(path_of(&document)?);
            let folder = file.parent().unwrap_or(to);
            if folders.insert(folder.to_owned()) {
                create_folder(folder)?;
            }
            copy_document(&document, &from.join(document.key.as_str()), &file)?;
            copied += 1;
            if reported.elapsed() >= PROGRESS {
                reported = Instant::now();
                print(&format!("copied {copied} of {} documents\n", totals.documents))?;
            }
        }
    }
    // Their parents, too: the new folders have entries there.
    let parents: Vec<_> = folders.iter().filter_map(|folder| folder.parent()).collect();
    folders.iter().map(PathBuf::as_path).chain(parents).try_for_each(sync)?;
    Ok(())
}

/// Returns the path of a document below the folder of documents. Checks it, because a backup may
/// come from anywhere.
fn path_of(document: &CopiedDocument) -> Result<&Path> {
    let path = Path::new(document.key.as_str());
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(is_below, "the database names a document outside of its folder");
    Ok(path)
}

fn copy_document(document: &CopiedDocument, from: &Path, to: &Path) -> Result<()> {
    let key = document.key.as_str();
    let copied = copy_file(from, to).with_context(|| {
        format!("the document {key}; if its order was erased meanwhile, repeat the backup")
    })?;
    ensure!(
        copied == FileFacts::new(document.size, document.sha256),
        "the document {key} is damaged: its size or its SHA-256 is not that of the upload"
    );
    Ok(())
}

/// Hashes what is written to a file.
struct Hashing<W> {
    file: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Copies a file durably into a new file that only its owner can read.
fn copy_file(from: &Path, to: &Path) -> io::Result<FileFacts> {
    let mut source = File::open(from)?;
    let mut copy = Hashing { file: create_file(to)?, hash: Sha256::new() };
    let bytes = io::copy(&mut source, &mut copy)?;
    copy.file.sync_all()?;
    Ok(FileFacts::new(bytes, Sha256Digest(copy.hash.finalize().into())))
}

fn facts_of(file: &Path) -> io::Result<FileFacts> {
    let mut sink = Hashing { file: io::sink(), hash: Sha256::new() };
    let bytes = io::copy(&mut File::open(file)?, &mut sink)?;
    Ok(FileFacts::new(bytes, Sha256Digest(sink.hash.finalize().into())))
}

/// Writes the manifest under another name and renames it, so that it is complete or absent.
fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<()> {
    let (unfinished, complete) = (folder.join("manifest.unfinished"), folder.join(MANIFEST));
    let mut file = create_file(&unfinished)?;
    serde_json::to_writer_pretty(&mut file, manifest)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(unfinished, complete)?;
    Ok(sync(folder)?)
}

fn read_manifest(folder: &Path) -> Result<Manifest> {
    let path = folder.join(MANIFEST);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("{} is no complete backup: {MANIFEST}", folder.display()))?;
    let manifest: Manifest =
        serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    ensure!(manifest.format == FORMAT, "the backup has the unknown format {}", manifest.format);
    Ok(manifest)
}
