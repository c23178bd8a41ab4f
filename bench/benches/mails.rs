//! Mails per second of each destination alone, for some numbers of concurrent calls.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a measurement that cannot continue has failed"
)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, LazyLock, Mutex},
    thread,
    time::Duration,
};

use adapter_mail::MailDrop;
use contract_tests::{fakes::CountingEntropy, notifier::notification_of, samples};
use divan::{Bencher, counter::ItemsCount};
use domain::{delivery::Notification, ports::Notifier};
use futures_util::{StreamExt as _, stream};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The folder of the mail drop. It is removed at the end: creating files is slow for half a minute
/// after many were removed.
static FOLDER: LazyLock<Mutex<Option<TempDir>>> =
    LazyLock::new(|| Mutex::new(Some(TempDir::new().unwrap())));

fn main() {
    divan::main();
    FOLDER.lock().unwrap().take();
}

#[divan::bench(args = [1, 32, 64], sample_count = 20, sample_size = 1)]
fn mail_drop(bencher: Bencher, concurrent: usize) {
    let folder = FOLDER.lock().unwrap().as_ref().unwrap().path().to_owned();
    let notifier = MailDrop::in_folder(&folder, "orders@localhost".parse().unwrap()).unwrap();
    measure(
        bencher,
        &(Arc::new(notifier) as Arc<dyn Notifier>),
        concurrent,
        16 * concurrent.max(8),
    );
}

#[divan::bench(args = [10, 300], sample_count = 3, sample_size = 1)]
fn relay_with_32_concurrent_mails(bencher: Bencher, milliseconds: u64) {
    let url = slow_relay(Duration::from_millis(milliseconds));
    let notifier = adapter_mail::open(&url, "orders@example.com".parse().unwrap()).unwrap();
    measure(bencher, &notifier, 32, if milliseconds < 100 { 3_200 } else { 320 });
}

/// Sends different mails, so many at a time.
fn measure(bencher: Bencher, notifier: &Arc<dyn Notifier>, concurrent: usize, mails: usize) {
    let runtime = Runtime::new().unwrap();
    let entropy = CountingEntropy::default();
    let mail = || notification_of(samples::minimal_request(), "escrow@example.com", &entropy);
    bencher
        .counter(ItemsCount::new(mails))
        .with_inputs(|| (0..mails).map(|_| mail()).collect::<Vec<Notification>>())
        .bench_local_values(|mails| {
            let send = |mail: Notification| {
                let notifier = Arc::clone(notifier);
                let sent = runtime.spawn(async move { notifier.notify(&mail).await });
                async { sent.await.unwrap().unwrap() }
            };
            let all = stream::iter(mails).map(send).buffer_unordered(concurrent);
            runtime.block_on(all.count())
        });
}

/// Starts a relay that takes this long for each mail, and returns its URL.
fn slow_relay(delay: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = connection.unwrap();
            thread::spawn(move || serve(&connection, delay));
        }
    });
    url
}

fn serve(mut connection: &TcpStream, delay: Duration) {
    connection.set_nodelay(true).unwrap();
    connection.write_all(b"220 relay\r\n").unwrap();
    let mut is_mail = false;
    for line in BufReader::new(connection).lines() {
        let Ok(line) = line else { return };
        let reply = match &*line {
            "." => {
                thread::sleep(delay);
                is_mail = false;
                "250 accepted\r\n"
            }
            _ if is_mail => continue,
            "DATA" => {
                is_mail = true;
                "354 go on\r\n"
            }
            _ => "250 relay\r\n",
        };
        if connection.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}
