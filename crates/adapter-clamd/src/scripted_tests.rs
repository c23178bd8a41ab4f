//! Scans by a server that follows a script: it fails in ways that clamd cannot on demand.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use contract_tests::{blob_store::spooled, fakes::CountingEntropy};
use domain::{
    document::SpooledFile,
    ports::{DocumentScanner as _, ScanError, Verdict, error_chain},
};
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};

use crate::{Clamd, TimeLimits, scanner::MAX_CONNECTIONS};

/// A limit that no scan meets on a busy machine.
const GENEROUS: Duration = Duration::from_mins(2);

/// Larger than all buffers between the service and the server.
const LARGE: usize = 8 * 1024 * 1024;

/// Runs a script for each connection.
async fn serve<F>(script: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let connection = listener.accept().await.unwrap().0;
            tokio::spawn(script(connection));
        }
    });
    address
}

fn clamd(address: SocketAddr, time_limit: Duration) -> Clamd {
    let limits = TimeLimits { scan: time_limit, check: time_limit };
    Clamd::open(&format!("tcp://{address}"), limits).unwrap()
}

fn document(size: usize) -> (TempDir, SpooledFile, Vec<u8>) {
    let spool = TempDir::new().unwrap();
    let (file, bytes) = spooled(spool.path(), size, &CountingEntropy::default());
    (spool, file, bytes)
}

/// Scans a document of that size while the server follows a script.
async fn scan<F>(
    size: usize,
    script: impl Fn(TcpStream) -> F + Send + 'static,
) -> Result<Verdict, ScanError>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (_spool, file, _) = document(size);
    clamd(serve(script).await, GENEROUS).scan(&file).await
}

/// Reads a command and the frames of a document. Returns its bytes.
async fn receive(connection: &mut TcpStream) -> Vec<u8> {
    let mut command = [0; 10];
    connection.read_exact(&mut command).await.unwrap();
    assert_eq!(&command, b"zINSTREAM\0");
    let mut document = Vec::new();
    loop {
        let length = connection.read_u32().await.unwrap() as usize;
        if length == 0 {
            return document;
        }
        let start = document.len();
        document.resize(start + length, 0);
        connection.read_exact(&mut document[start..]).await.unwrap();
    }
}

#[track_caller]
fn cause(outcome: Result<Verdict, ScanError>) -> String {
    let Err(error @ ScanError::Unavailable(_)) = outcome else { panic!("{outcome:?}") };
    error_chain(&error)
}

#[tokio::test]
async fn document_arrives_byte_for_byte() {
    for size in [1, 131_071, 131_072, 131_073, 1_000_000] {
        let (_spool, file, bytes) = document(size);
        let (received, mut arrived) = mpsc::unbounded_channel();
        let address = serve(move |mut connection| {
            let received = received.clone();
            async move {
                received.send(receive(&mut connection).await).unwrap();
                connection.write_all(b"stream: OK\0").await.unwrap();
            }
        })
        .await;
        let verdict = clamd(address, GENEROUS).scan(&file).await;
        assert_eq!(verdict.unwrap(), Verdict::Clean);
        assert!(arrived.recv().await.unwrap() == bytes, "{size}");
    }
}

#[tokio::test]
async fn lost_connection_is_unavailable() {
    let at_once = scan(LARGE, |connection| async { drop(connection) }).await;
    let in_the_middle = scan(LARGE, |mut connection| async move {
        connection.read_exact(&mut vec![0; 300_000]).await.unwrap();
    });
    let before_the_answer = scan(1_000, |mut connection| async move {
        receive(&mut connection).await;
    });
    for outcome in [at_once, in_the_middle.await, before_the_answer.await] {
        let cause = cause(outcome);
        assert!(!cause.contains("no answer in time"), "{cause}");
    }
}

/// Also one that looks like the answer for a clean document but for its end.
#[tokio::test]
async fn other_answers_are_unavailable_and_not_repeated() {
    for (answer, expected) in [
        ("stream: OK", "the answer ended early"),
        ("stream: O", "the answer ended early"),
        ("stream: Eicar FOUND", "the answer ended early"),
        ("HTTP/1.1 400 Bad Request\r\n\r\nJane Doe\0", "not from clamd"),
        ("\0", "not from clamd"),
        ("stream: Can't allocate memory ERROR\0", "clamd failed: stream: Can't allocate memory"),
    ] {
        let outcome = scan(1_000, move |mut connection| async move {
            receive(&mut connection).await;
            connection.write_all(answer.as_bytes()).await.unwrap();
        });
        let cause = cause(outcome.await);
        assert!(cause.contains(expected) && !cause.contains("Jane"), "{answer}: {cause}");
    }
}

#[tokio::test]
async fn endless_answer_is_unavailable() {
    let outcome = scan(LARGE, |mut connection| async move {
        while connection.write_all(&[b'x'; 4_096]).await.is_ok() {}
    });
    assert!(cause(outcome.await).contains("the answer ended early"));
}

#[tokio::test]
async fn document_is_not_clean_before_its_end() {
    let outcome = scan(LARGE, |mut connection| async move {
        connection.write_all(b"stream: OK\0").await.unwrap();
        // Reads nothing, and waits until the service closes the connection.
        let _ = connection.readable().await;
        std::future::pending::<()>().await;
    });
    assert!(cause(outcome.await).contains("before the end of the document"));
}

#[tokio::test]
async fn early_rejection_is_read() {
    let outcome = scan(LARGE, |mut connection| async move {
        connection.read_exact(&mut vec![0; 300_000]).await.unwrap();
        connection.write_all(b"INSTREAM size limit exceeded. ERROR\0").await.unwrap();
        // With bytes that nobody read, so the connection is reset.
    });
    let outcome = outcome.await;
    assert!(matches!(outcome, Err(ScanError::TooLarge)), "{outcome:?}");
}

#[tokio::test]
async fn scan_ends_at_its_time_limit() {
    let reads_nothing = serve(|connection| async move {
        let _connection = connection;
        std::future::pending::<()>().await;
    });
    let answers_slowly = serve(|mut connection| async move {
        receive(&mut connection).await;
        while connection.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let (_spool, file, _) = document(LARGE);
    for address in [reads_nothing.await, answers_slowly.await] {
        let outcome = clamd(address, Duration::from_millis(300)).scan(&file).await;
        assert!(cause(outcome).contains("no answer in time"));
    }
}

#[tokio::test]
async fn scans_in_progress_are_limited() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (all_there, seen) = (Arc::new(Semaphore::new(0)), Arc::clone(&most));
    let address = serve(move |mut connection| {
        let (open, most, all_there) = (open.clone(), most.clone(), all_there.clone());
        async move {
            let now = open.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            receive(&mut connection).await;
            // Nothing is answered until all connections are in use.
            if now == MAX_CONNECTIONS {
                all_there.add_permits(1_000);
            }
            all_there.acquire().await.unwrap().forget();
            open.fetch_sub(1, Ordering::SeqCst);
            connection.write_all(b"stream: OK\0").await.unwrap();
        }
    })
    .await;
    let (_spool, file, _) = document(1_000);
    let clamd = clamd(address, GENEROUS);
    let scans = join_all((0..5 * MAX_CONNECTIONS).map(|_| clamd.scan(&file))).await;
    assert!(scans.into_iter().all(|scan| matches!(scan, Ok(Verdict::Clean))));
    assert_eq!(seen.load(Ordering::SeqCst), MAX_CONNECTIONS);
}

#[tokio::test]
async fn check_wants_the_answer_of_clamd() {
    let check = async |answer: &'static str| {
        let address = serve(move |mut connection| async move {
            let mut command = [0; 6];
            connection.read_exact(&mut command).await.unwrap();
            assert_eq!(&command, b"zPING\0");
            connection.write_all(answer.as_bytes()).await.unwrap();
        });
        clamd(address.await, GENEROUS).check().await
    };
    check("PONG\0").await.unwrap();
    for answer in ["PONG", "HTTP/1.1 400 Bad Request\r\n\0", "\0", ""] {
        check(answer).await.unwrap_err();
    }
}
