//! Several uploads of the largest allowed size at once.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use reqwest::{Body, multipart::Part};

use crate::{
    abuse::connections::{MIB, Service},
    harness::{client_without_pool, created, deed, eventually, form, order, spooled},
};

/// Sends 2 × 20 documents of 10 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn largest_concurrent_uploads_use_little_memory() {
    const SIZE: usize = 10 * 1024 * 1024;
    let service = Service::start(":");
    created(service.process.order_with_deed("F-0").await).await;
    let memory = service.process.memory();
    let block = Bytes::from(vec![b' '; 64 * 1024]);
    let document = || {
        let rest = SIZE - 9;
        let (blocks, last) = (rest / block.len(), block.slice(..rest % block.len()));
        let pieces = std::iter::once(Bytes::from_static(b"%PDF-1.7\n"))
            .chain(std::iter::repeat_n(block.clone(), blocks))
            .chain([last]);
        Body::wrap_stream(stream::iter(pieces.map(Ok::<_, std::io::Error>).collect::<Vec<_>>()))
    };
    let uploads = (0..2).map(|at| {
        let part = || Part::stream_with_length(document(), SIZE as u64).file_name("large.pdf");
        let form = (0..20)
            .fold(form(&order(&format!("F-large-{at}"))), |form, _| form.part("documents", part()));
        let service = (*service.process).clone();
        tokio::spawn(async move { created(service.create_with(form).await).await })
    });
    let open = Arc::new(AtomicUsize::new(1));
    let orders = service.create_orders("new", client_without_pool(), Arc::clone(&open));
    let mut uploads = stream::iter(uploads.collect::<Vec<_>>()).buffer_unordered(2);
    while let Some(uploaded) = uploads.next().await {
        assert_eq!(uploaded.unwrap()["documents_uploaded"], 20);
    }
    let held = service.process.peak_memory().saturating_sub(memory);
    assert!(held < 64 * MIB, "{} MiB", held / MIB);
    open.store(0, Ordering::Relaxed);
    assert!(orders.await.unwrap() > 0);
    eventually(|| spooled(service.wiring.data()).is_empty()).await;
    let objects = service.wiring.objects();
    let (large, small): (Vec<_>, Vec<_>) =
        objects.into_values().partition(|object| object.len() == SIZE);
    assert_eq!(large.len(), 40);
    assert!(
        large.iter().all(|object| object.starts_with(b"%PDF-1.7\n")
            && object[9..].iter().all(|byte| *byte == b' '))
    );
    assert!(small.iter().all(|object| *object == deed()));
}
