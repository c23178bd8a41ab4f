use std::{cell::Cell, io::ErrorKind, rc::Rc};

use actix_web::{FromRequest as _, dev, test::TestRequest};
use domain::api_key::ApiKeyId;
use futures_util::{FutureExt as _, stream};
use tokio::time::advance;

use super::*;
use crate::body_memory::BodyMemory;

type Chunks = Vec<Result<Bytes, PayloadError>>;

fn payload(stream: impl Stream<Item = Result<Bytes, PayloadError>> + 'static) -> web::Payload {
    let mut payload: dev::Payload = dev::Payload::Stream { payload: Box::pin(stream) };
    web::Payload::from_request(&TestRequest::default().to_http_request(), &mut payload)
        .now_or_never()
        .unwrap()
        .unwrap()
}

fn chunks(sizes: &[usize]) -> Chunks {
    sizes.iter().map(|size| Ok(Bytes::from(vec![b'x'; *size]))).collect()
}

fn announcing(headers: &[(&'static str, &'static str)]) -> HttpRequest {
    headers
        .iter()
        .fold(TestRequest::default(), |request, header| request.append_header(*header))
        .to_http_request()
}

fn memory() -> Arc<MemoryShare> {
    BodyMemory::new(u64::MAX).share(ApiKeyId(1))
}

async fn whole(request: &HttpRequest, body: web::Payload, cap: u64) -> Result<Bytes, Problem> {
    read_all(request, body, cap, memory()).await.map(|body| body.bytes)
}

fn code<T>(result: Result<T, Problem>) -> Option<ProblemCode> {
    result.err().map(|problem| problem.code())
}

#[test]
fn coded_and_too_large_bodies_are_rejected_by_head() {
    let checked = |headers: &[_]| code(check_head(&announcing(headers), 100));
    assert_eq!(checked(&[]), None);
    assert_eq!(checked(&[("content-length", "100")]), None);
    assert_eq!(checked(&[("content-length", "101")]), Some(ProblemCode::PayloadTooLarge));
    assert_eq!(checked(&[("content-encoding", "Identity")]), None);
    assert_eq!(checked(&[("content-encoding", "gzip")]), Some(ProblemCode::UnsupportedMediaType));
    assert_eq!(
        checked(&[("content-encoding", "identity"), ("content-encoding", "br")]),
        Some(ProblemCode::UnsupportedMediaType)
    );
}

#[actix_web::test]
async fn body_is_read_up_to_its_cap() {
    let read = async |sizes: &[usize]| {
        whole(&announcing(&[]), payload(stream::iter(chunks(sizes))), 100).await
    };
    assert_eq!(read(&[60, 0, 40]).await, Ok(Bytes::from(vec![b'x'; 100])));
    assert_eq!(code(read(&[60, 41]).await), Some(ProblemCode::PayloadTooLarge));
    let broken = payload(stream::iter([
        Ok(Bytes::from_static(b"x")),
        Err(PayloadError::Io(ErrorKind::ConnectionReset.into())),
    ]));
    assert_eq!(
        code(whole(&announcing(&[]), broken, 100).await),
        Some(ProblemCode::MalformedRequest)
    );
}

#[actix_web::test]
async fn body_ends_at_its_content_length() {
    let endless = payload(stream::iter(chunks(&[60, 40])).chain(stream::pending()));
    assert_eq!(
        whole(&announcing(&[("content-length", "100")]), endless, 100).await.unwrap().len(),
        100
    );
}

#[tokio::test(start_paused = true)]
async fn missing_body_times_out() {
    let started = Instant::now();
    let problem = whole(&announcing(&[]), payload(stream::pending()), 100).await;
    assert_eq!(
        (code(problem), started.elapsed().as_secs()),
        (Some(ProblemCode::RequestTimeout), 15)
    );
    let started = Instant::now();
    let problem =
        Body::new(&announcing(&[]), payload(stream::pending()), 100, memory()).finish().await;
    assert_eq!(
        (code(problem), started.elapsed().as_secs()),
        (Some(ProblemCode::RequestTimeout), 30)
    );
}

#[actix_web::test]
async fn body_beyond_the_budget_is_unavailable() {
    let budget = BodyMemory::new((REQUEST_MEMORY + memory_of(100)) as u64);
    let read = async |size| {
        let body = payload(stream::iter(chunks(&[size])));
        read_all(&announcing(&[]), body, 1_000, budget.share(ApiKeyId(1))).await
    };
    let held = read(100).await.unwrap();
    assert_eq!(code(read(0).await), Some(ProblemCode::Unavailable));
    drop(held);
    assert_eq!(code(read(104).await), Some(ProblemCode::Unavailable));
    assert_eq!(code(read(100).await), None);
}

#[actix_web::test]
async fn announced_length_counts_at_once_with_half_for_the_allocator() {
    for (length, counted) in [("800", 1_200), ("1000", 1_500), ("1001", 0)] {
        let budget = BodyMemory::new(u64::MAX);
        let (request, share) =
            (announcing(&[("content-length", length)]), budget.share(ApiKeyId(1)));
        let reading = read_all(&request, payload(stream::pending()), 1_000, share);
        let mut reading = std::pin::pin!(reading);
        assert!(futures_util::poll!(reading.as_mut()).is_pending());
        assert_eq!(budget.used(), REQUEST_MEMORY as u64 + counted, "{length}");
    }
}

#[actix_web::test]
async fn allocated_bytes_grow_with_arrived_ones_and_count() {
    let budget = BodyMemory::new(u64::MAX);
    let body = payload(stream::empty());
    let body = Body::new(&announcing(&[]), body, 1_000, budget.share(ApiKeyId(1)));
    let (mut bytes, mut capacities) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        assert_eq!(body.append(&mut bytes, &[b'x'; 100], 1_000).await, Ok(()));
        assert_eq!(budget.used(), memory_of(bytes.capacity()) as u64);
        capacities.push(bytes.capacity());
    }
    assert_eq!(capacities, [100, 200, 400, 400, 800, 800, 800, 800, 1_000, 1_000]);
}

#[actix_web::test]
async fn finish_reads_the_rest() {
    let read = Rc::new(Cell::new(0));
    let counted = read.clone();
    let body = stream::iter(chunks(&[1, 2, 3]))
        .inspect(move |chunk| counted.set(counted.get() + chunk.as_ref().unwrap().len()));
    assert_eq!(Body::new(&announcing(&[]), payload(body), 100, memory()).finish().await, Ok(()));
    assert_eq!(read.get(), 6);
    let too_large =
        Body::new(&announcing(&[]), payload(stream::iter(chunks(&[101]))), 100, memory())
            .finish()
            .await;
    assert_eq!(code(too_large), Some(ProblemCode::PayloadTooLarge));
    let broken = payload(stream::iter([Err(PayloadError::Io(ErrorKind::ConnectionReset.into()))]));
    assert_eq!(
        code(Body::new(&announcing(&[]), broken, 100, memory()).finish().await),
        Some(ProblemCode::MalformedRequest)
    );
}

/// Returns a body of chunks, each after a pause in seconds.
fn paused(chunks: &[(u64, usize)]) -> web::Payload {
    let chunks = chunks.to_vec();
    payload(stream::iter(chunks).then(async |(seconds, size)| {
        sleep(Duration::from_secs(seconds)).await;
        Ok(Bytes::from(vec![b'x'; size]))
    }))
}

/// In 30 seconds of waiting a body must bring 30 KiB.
#[tokio::test(start_paused = true)]
async fn slow_body_times_out() {
    const KIB: usize = 1024;
    for (chunks, failed_after) in [
        (&[(29, 1)][..], None),
        (&[(31, 1)], Some(30)),
        (&[(20, 64), (20, 64)], Some(30)),
        (&[(29, 30 * KIB), (29, 30 * KIB), (29, 1)], None),
        (&[(29, 30 * KIB - 1), (29, 30 * KIB)], Some(30)),
        // A fast start does not pay for a slow end.
        (&[(1, 90 * KIB), (40, 1), (40, 1)], Some(60)),
    ] {
        let started = Instant::now();
        let body = Body::new(&announcing(&[]), paused(chunks), 1_000 * KIB as u64, memory());
        let finished = body.finish().await.err();
        let seconds = finished.is_some().then(|| started.elapsed().as_secs());
        assert_eq!(seconds, failed_after, "{chunks:?}");
        assert!(finished.is_none_or(|problem| problem == too_slow()));
    }
}

#[tokio::test(start_paused = true)]
async fn busy_service_does_not_make_the_client_slow() {
    let mut body = Body::new(&announcing(&[]), paused(&[(10, 1), (10, 1), (9, 1)]), 100, memory());
    while let Some(chunk) = body.next().await {
        assert!(chunk.is_ok());
        advance(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_wait_does_not_make_the_client_slow() {
    let chunks = stream::iter(chunks(&[10])).chain(stream::pending());
    let mut body = Body::new(&announcing(&[]), payload(chunks), 100, memory());
    assert!(body.next().now_or_never().is_some());
    assert!(body.next().now_or_never().is_none());
    advance(PACE_TIME / 2).await;
    body.stop_waiting();
    advance(PACE_TIME).await;
    assert!(body.next().now_or_never().is_none());
    advance(PACE_TIME / 2).await;
    assert!(body.next().now_or_never().is_some_and(|chunk| chunk.unwrap().is_err()));
}

#[tokio::test(start_paused = true)]
async fn waiting_body_loses_its_memory_to_a_faster_one() {
    let budget = BodyMemory::new((REQUEST_MEMORY + memory_of(100)) as u64);
    let slow_request = announcing(&[]);
    let slow = payload(stream::iter(chunks(&[10])).chain(stream::pending()));
    let slow = read_all(&slow_request, slow, 1_000, budget.share(ApiKeyId(1)));
    let fast = async {
        sleep(Duration::from_secs(1)).await;
        let body = payload(stream::iter(chunks(&[90])));
        read_all(&announcing(&[]), body, 1_000, budget.share(ApiKeyId(1))).await
    };
    let started = Instant::now();
    let (slow, fast) = futures_util::join!(slow, fast);
    assert_eq!((code(slow), code(fast)), (Some(ProblemCode::Unavailable), None));
    assert_eq!(started.elapsed().as_secs(), 1);
}
