//! Downloads all documents of an order as one archive.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use contract_tests::documents;
use domain::{api_key::Scope, order::SigningServiceId, use_cases::keys::manage_keys::KeyTerms};
use reqwest::{Method, multipart::Form};
use test_servers::tools::{built, python};

use crate::{
    harness::{TestApp, created, file, files_below, form, order},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    interrupted_archive_is_continued,
}

const DOCUMENTS: &str = "/api/order/1/documents.zip";
const SIGNED: &str = "/api/order/1/signed-documents.zip";

/// Documents of an order, and their names. A DOCX is an archive itself: without its size before it, a reader
/// takes its end for that of the document.
const FILES: [(&str, &str); 4] = [
    ("signing-instructions.docx", "Signing instructions.docx"),
    ("deed-of-trust.pdf", "合同.pdf"),
    ("signing-instructions-python-docx.docx", "合同.docx"),
    ("signature-page.png", "Unterschrift ß.png"),
];

fn with_files(form: Form) -> Form {
    FILES.iter().fold(form, |form, (source, name)| {
        form.part("documents", file(name, documents::bytes(source)))
    })
}

/// Programs that unpack an archive of their standard input.
const READERS: [&str; 6] =
    ["unzipper.mjs", "fflate.mjs", "Unzip.java", "stream_unzip_all.py", "busybox", "funzip"];

/// Prepares a reader that unpacks into `to`. It runs in `folder`.
fn reader(name: &str, folder: &Path, to: &Path) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/orders/archive_readers");
    let mut reader = match Path::new(name).extension().and_then(OsStr::to_str) {
        Some("mjs") => Command::new("node"),
        Some("java") => Command::new("java"),
        Some("py") => Command::new(python()),
        _ => Command::new(name),
    };
    match name {
        "busybox" => {
            reader.args(["unzip", "-q", "-", "-d"]).arg(to);
        }
        // It unpacks the first file only.
        "funzip" => {
            reader.stdout(File::create(to.join(FILES[0].1)).unwrap());
        }
        script => {
            fs::copy(scripts.join(script), folder.join(script)).unwrap();
            reader.arg(script).arg(to);
        }
    }
    // Java writes names in the encoding of the locale.
    reader.current_dir(folder).env("LC_ALL", "C.UTF-8");
    reader
}

/// Unpacks an archive that arrives through a pipe. Returns the files by name.
fn unpacked(archive: &[u8], name: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("unpacked");
    fs::create_dir(&to).unwrap();
    let modules = built("tools/node_modules", "scripts/client_tools.sh makes it");
    symlink(modules, folder.path().join("node_modules")).unwrap();
    let mut reader = reader(name, folder.path(), &to);
    let mut process = reader.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end before it has read the directory of the archive.
    let _ = process.stdin.take().unwrap().write_all(archive);
    let ended = process.wait_with_output().unwrap();
    assert!(ended.status.success(), "{name}: {ended:?}");
    let files = files_below(&to).into_iter().map(|path| {
        let name = path.strip_prefix(&to).unwrap().to_str().unwrap().to_owned();
        (name, fs::read(&path).unwrap())
    });
    files.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_cannot_seek_find_every_document() {
    let app = TestApp::start().await;
    let scopes = Scope::OF_SERVICES.into_iter().collect();
    let for_service = Some(SigningServiceId(42));
    let key = app.issue_key_on(KeyTerms { scopes, for_service, ..KeyTerms::default() }).await;
    created(app.create_with(with_files(form(&order("F-1")))).await).await;
    let path = "/api/order/1/signed-documents";
    let signed = app.as_key(&key).post(path).multipart(with_files(Form::new()));
    created(signed.send().await.unwrap()).await;
    for path in [DOCUMENTS, SIGNED] {
        let archive = app.get(path).await.bytes().await.unwrap();
        for reader in READERS {
            let archive = archive.clone();
            let found = tokio::task::spawn_blocking(move || unpacked(&archive, reader));
            let found = found.await.unwrap();
            let count = if reader == "funzip" { 1 } else { FILES.len() };
            for (source, name) in &FILES[..count] {
                assert!(found.get(*name) == Some(&documents::bytes(source)), "{reader}: {name}");
            }
            assert_eq!(found.len(), count, "{reader}: {:?}", found.keys());
        }
    }
}

async fn interrupted_archive_is_continued(kind: Kind) {
    let app = kind.app().await;
    created(app.create_with(with_files(form(&order("F-1")))).await).await;
    let whole = app.get(DOCUMENTS).await;
    let (tag, size) = (whole.headers()["etag"].clone(), whole.content_length().unwrap());
    assert_eq!(whole.headers()["accept-ranges"], "bytes");
    let whole = whole.bytes().await.unwrap();
    assert_eq!(whole.len() as u64, size);
    let head = app.request(Method::HEAD, DOCUMENTS).send().await.unwrap();
    assert_eq!(
        (head.headers()["content-length"].to_str().unwrap(), &head.headers()["etag"]),
        (&*size.to_string(), &tag)
    );

    let rest = async |first: usize| {
        let request = app.request(Method::GET, DOCUMENTS).header("if-range", tag.clone());
        request.header("range", format!("bytes={first}-")).send().await.unwrap()
    };
    // In a header, in a document, between both, and in the directory at the end.
    for first in [9, whole.len() / 2, whole.len() - 30] {
        let rest = rest(first).await;
        assert_eq!(rest.status(), 206);
        let range = format!("bytes {first}-{}/{size}", size - 1);
        assert_eq!(rest.headers()["content-range"], range.as_str());
        assert!(rest.bytes().await.unwrap() == whole[first..], "{range}");
    }
    // A document more is another archive.
    let more = Form::new().part("documents", file("more.pdf", documents::bytes(FILES[1].0)));
    created(app.post("/api/order/1/documents").multipart(more).send().await.unwrap()).await;
    let answer = rest(9).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.content_length().unwrap() > size);
}
