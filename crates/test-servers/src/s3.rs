//! An S3 server that checks signatures and checksums, with its objects in a folder.

use std::{
    collections::BTreeMap,
    fs,
    future::pending,
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
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
use tokio::runtime::Runtime;

/// The bucket that is there.
pub const BUCKET: &str = "documents";
/// The access key that the server knows.
pub const ACCESS_KEY: &str = "AKIATESTSERVER";
/// Its secret.
pub const SECRET_KEY: &str = "the-secret-of-the-test-server";

/// How long another process may keep the port of a server that starts again.
const PORT_PATIENCE: Duration = Duration::from_secs(10);

/// What a rule has the server do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Serve it.
    Serve,
    /// Answer with this status instead.
    Refuse(u16),
    /// Never answer.
    Silence,
    /// Serve it as if the network had changed the first byte of its body.
    Corrupt,
    /// Serve it after so long.
    Delay(Duration),
    /// Answer 200 and do nothing, as something between that knows no S3 does.
    Pretend,
    /// Serve it, and say that the object is so many bytes longer than it is.
    Exaggerate(u64),
}

type Rule = Box<dyn Fn(&Parts) -> Treatment + Send>;

/// A server that ends when it is dropped.
pub struct S3Server {
    folder: TempDir,
    address: SocketAddr,
    rule: Arc<Mutex<Option<Rule>>>,
    running: Mutex<Option<Runtime>>,
}

impl S3Server {
    /// Starts a server with an empty bucket.
    pub fn start() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            folder,
            address: listener.local_addr().unwrap(),
            rule: Arc::default(),
            running: Mutex::default(),
        };
        server.serve(listener);
        server
    }

    /// Closes every connection and takes no more. The objects stay.
    pub fn stop(&self) {
        if let Some(runtime) = self.running.lock().unwrap().take() {
            // On a thread of its own, because a runtime must not be waited for from within another.
            thread::spawn(|| runtime.shutdown_timeout(Duration::from_secs(10))).join().unwrap();
        }
    }

    /// Starts again after a stop, on the same port and with the same objects.
    pub fn start_again(&self) {
        let deadline = Instant::now() + PORT_PATIENCE;
        let listener = loop {
            match TcpListener::bind(self.address) {
                // While the server was stopped, the system may have lent its port to a client.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline =>
                {
                    thread::sleep(Duration::from_millis(20))
                }
                bound => break bound.unwrap(),
            }
        };
        self.serve(listener);
    }

    /// Lets a rule decide what becomes of each request from now on.
    pub fn treat(&self, rule: impl Fn(&Parts) -> Treatment + Send + 'static) {
        *self.rule.lock().unwrap() = Some(Box::new(rule));
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a document store in its bucket, as the service takes it.
    pub fn url(&self) -> String {
        format!("s3://{BUCKET}/orders?endpoint=http://{}&region=us-east-1", self.address)
    }

    /// The environment variables that the service needs beside the URL.
    pub fn variables(&self) -> [(String, String); 2] {
        [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    }

    /// The folder of the bucket: a file for each object, at its key.
    pub fn bucket(&self) -> PathBuf {
        self.folder.path().join(BUCKET)
    }

    /// Every object in the bucket, by its key.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let mut objects = BTreeMap::new();
        collect(&self.bucket(), "", &mut objects);
        objects
    }

    /// Multipart uploads that were neither completed nor aborted.
    pub fn unfinished_uploads(&self) -> usize {
        let names =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with(".upload-")).count()
    }

    fn serve(&self, listener: TcpListener) {
        let mut builder = S3ServiceBuilder::new(FileSystem::new(self.folder.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        builder.set_access(Policy { root: self.folder.path().to_owned() });
        let (s3, rule) = (builder.build(), Arc::clone(&self.rule));
        let runtime = Runtime::new().unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).unwrap()
        };
        runtime.spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (s3, rule) = (s3.clone(), Arc::clone(&rule));
                let service =
                    service_fn(move |request| answer(s3.clone(), Arc::clone(&rule), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
            }
        });
        *self.running.lock().unwrap() = Some(runtime);
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn answer(
    s3: S3Service,
    rule: Arc<Mutex<Option<Rule>>>,
    request: Request<Incoming>,
) -> Result<HttpResponse, HttpError> {
    let (head, body) = request.into_parts();
    let mut body = Body::from(body);
    let treatment = rule.lock().unwrap().as_ref().map_or(Treatment::Serve, |rule| rule(&head));
    match treatment {
        Treatment::Serve => {}
        Treatment::Refuse(status) => {
            let mut refusal = HttpResponse::new(Body::empty());
            *refusal.status_mut() = status.try_into().unwrap();
            return Ok(refusal);
        }
        Treatment::Pretend => {
            let mut answer = HttpResponse::new(Body::empty());
            // Without it a client would not believe that it was a put.
            answer.headers_mut().insert("etag", HeaderValue::from_static("\"0\""));
            return Ok(answer);
        }
        Treatment::Exaggerate(bytes) => {
            let mut answer = s3.call(Request::from_parts(head, body)).await?;
            if let Some(length) = answer.headers_mut().get_mut(CONTENT_LENGTH) {
                *length = (length.to_str().unwrap().parse::<u64>().unwrap() + bytes).into();
            }
            return Ok(answer);
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

/// Whoever has the key may do everything, in a bucket that is there: `s3s-fs` alone would make one.
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
