//! An S3 server that checks signatures and checksums, with its objects in a folder.

use std::{
    collections::BTreeMap,
    fs,
    future::pending,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use hyper::{
    Request,
    body::Incoming,
    header::{CONTENT_LENGTH, HeaderValue},
    http::request::Parts,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use s3s::{
    Body, HttpError, HttpResponse, S3Result,
    access::{S3Access, S3AccessContext},
    auth::SimpleAuth,
    s3_error,
    service::{S3Service, S3ServiceBuilder},
};
use s3s_fs::FileSystem;
use tempfile::TempDir;

use crate::restartable::Restartable;

/// The only bucket.
pub const BUCKET: &str = "documents";
/// The only access key.
pub const ACCESS_KEY: &str = "AKIATESTSERVER";
/// Its secret.
pub const SECRET_KEY: &str = "the-secret-of-the-test-server";

/// The reaction of the server to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Serves it.
    Serve,
    /// Answers with this status instead.
    Refuse(u16),
    /// Never answers.
    Silence,
    /// Changes the first byte of its body and serves it.
    Corrupt,
    /// Serves it after a delay.
    Delay(Duration),
    /// Answers 200 and does nothing, as a proxy without knowledge of S3 might.
    Pretend,
    /// Serves it, and adds so many bytes to the size of the object in the response.
    Exaggerate(u64),
}

type Rule = Box<dyn Fn(&Parts) -> Treatment + Send>;

/// A server that stops when it is dropped.
pub struct S3Server {
    folder: TempDir,
    server: Restartable,
    rule: Arc<Mutex<Rule>>,
}

impl S3Server {
    /// Starts a server with an empty bucket.
    pub fn start() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let rule: Rule = Box::new(|_| Treatment::Serve);
        let server = Self { folder, server: Restartable::new(), rule: Arc::new(Mutex::new(rule)) };
        server.start_again();
        server
    }

    /// Closes all connections and refuses new ones. Keeps the objects.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// Starts again after a stop, on the same port and with the same objects.
    pub fn start_again(&self) {
        let mut builder = S3ServiceBuilder::new(FileSystem::new(self.folder.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        builder.set_access(Policy { root: self.folder.path().to_owned() });
        let (s3, rule) = (builder.build(), Arc::clone(&self.rule));
        self.server.start(move |connection| {
            let (s3, rule) = (s3.clone(), Arc::clone(&rule));
            let service = service_fn(move |request| answer(s3.clone(), Arc::clone(&rule), request));
            let serving = http1::Builder::new().serve_connection(TokioIo::new(connection), service);
            // An error means that the client has disconnected.
            async move { drop(serving.await) }
        });
    }

    /// Sets the rule for all requests.
    pub fn treat(&self, rule: impl Fn(&Parts) -> Treatment + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Returns the URL of its bucket for `--documents-url`.
    pub fn url(&self) -> String {
        format!("s3://{BUCKET}/orders?endpoint=http://{}&region=us-east-1", self.address())
    }

    /// Returns the environment variables that the service needs in addition to the URL.
    pub fn variables(&self) -> [(String, String); 2] {
        [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    }

    /// Returns the folder of the bucket. Each object is a file whose path is the key.
    pub fn bucket(&self) -> PathBuf {
        self.folder.path().join(BUCKET)
    }

    /// Returns all objects of the bucket by key.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let mut objects = BTreeMap::new();
        collect(&self.bucket(), "", &mut objects);
        objects
    }

    /// Returns the number of multipart uploads that were neither completed nor aborted.
    pub fn unfinished_uploads(&self) -> usize {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|it| it.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with(".upload-")).count()
    }
}

async fn answer(
    s3: S3Service,
    rule: Arc<Mutex<Rule>>,
    request: Request<Incoming>,
) -> Result<HttpResponse, HttpError> {
    let (head, body) = request.into_parts();
    let mut body = Body::from(body);
    let treatment = rule.lock().unwrap()(&head);
    match treatment {
        Treatment::Serve => {}
        Treatment::Refuse(_) | Treatment::Pretend => {
            let mut response = HttpResponse::new(Body::empty());
            if let Treatment::Refuse(status) = treatment {
                *response.status_mut() = status.try_into().unwrap();
            }
            // The client expects it in the response to a put.
            response.headers_mut().insert("etag", HeaderValue::from_static("\"0\""));
            return Ok(response);
        }
        Treatment::Exaggerate(bytes) => {
            let mut response = s3.call(Request::from_parts(head, body)).await?;
            if let Some(length) = response.headers_mut().get_mut(CONTENT_LENGTH) {
                *length = (length.to_str().unwrap().parse::<u64>().unwrap() + bytes).into();
            }
            return Ok(response);
        }
        Treatment::Silence => pending().await,
        Treatment::Delay(delay) => tokio::time::sleep(delay).await,
        Treatment::Corrupt => {
            let mut bytes = body.store_all_limited(usize::MAX).await.unwrap().to_vec();
            bytes[0] ^= 1;
            body = Body::from(bytes);
        }
    }
    s3.call(Request::from_parts(head, body)).await
}

/// Allows all requests with the access key to an existing bucket; `s3s-fs` would create a missing
/// one.
struct Policy {
    root: PathBuf,
}

#[async_trait]
impl S3Access for Policy {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        match context.s3_path().get_bucket_name() {
            _ if context.credentials().is_none() => Err(s3_error!(AccessDenied, "Access Denied")),
            Some(bucket) if !self.root.join(bucket).is_dir() => {
                Err(s3_error!(NoSuchBucket, "The specified bucket does not exist"))
            }
            _ => Ok(()),
        }
    }
}

fn collect(folder: &Path, prefix: &str, objects: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let key = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            collect(&path, &format!("{key}/"), objects);
        } else {
            objects.insert(key, fs::read(&path).unwrap());
        }
    }
}
