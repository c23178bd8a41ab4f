use std::io::ErrorKind;

use actix_web::{FromRequest as _, dev, test::TestRequest};
use futures_util::{FutureExt as _, Stream, TryStreamExt as _, future::ready, stream};
use tokio::time::advance;

use super::*;

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

fn code<T>(result: Result<T, Problem>) -> Option<ProblemCode> {
    result.err().map(|problem| problem.code())
}

#[test]
fn coded_and_too_large_bodies_are_rejected_by_head() {
    let checked = |headers: &[_]| code(check_head(&announcing(headers), 100));
    assert_eq!(checked(&[]), None);
    assert_eq!(checked(&[("content-length", "100")]), None);
    assert_eq!(checked(&[("content-length", "101")]), Some(ProblemCode::PayloadTooLarge));
    for nothing in ["Identity", "", "identity, identity"] {
        assert_eq!(checked(&[("content-encoding", nothing)]), None, "{nothing}");
    }
    assert_eq!(checked(&[("content-encoding", "gzip")]), Some(ProblemCode::UnsupportedMediaType));
    assert_eq!(
        checked(&[("content-encoding", "identity"), ("content-encoding", "br")]),
        Some(ProblemCode::UnsupportedMediaType)
    );
}

#[actix_web::test]
async fn body_is_read_up_to_its_cap() {
    let read = async |sizes: &[usize]| {
        read_all(&announcing(&[]), payload(stream::iter(chunks(sizes))), 100).await
    };
    assert_eq!(read(&[60, 0, 40]).await, Ok(Bytes::from(vec![b'x'; 100])));
    assert_eq!(code(read(&[60, 41]).await), Some(ProblemCode::PayloadTooLarge));
    let broken = payload(stream::iter([
        Ok(Bytes::from_static(b"x")),
        Err(PayloadError::Io(ErrorKind::ConnectionReset.into())),
    ]));
    assert_eq!(
        code(read_all(&announcing(&[]), broken, 100).await),
        Some(ProblemCode::MalformedRequest)
    );
}

#[actix_web::test]
async fn body_ends_at_its_content_length() {
    let endless = payload(stream::iter(chunks(&[60, 40])).chain(stream::pending()));
    assert_eq!(
        read_all(&announcing(&[("content-length", "100")]), endless, 100).await.unwrap().len(),
        100
    );
}

#[tokio::test(start_paused = true)]
async fn missing_body_times_out() {
    let started = Instant::now();
    let problem = read_all(&announcing(&[]), payload(stream::pending()), 100).await;
    assert_eq!(
        (code(problem), started.elapsed().as_secs()),
        (Some(ProblemCode::RequestTimeout), 15)
    );
    let started = Instant::now();
    let problem = drain(payload(stream::pending()), 100).await;
    assert_eq!(
        (code(problem), started.elapsed().as_secs()),
        (Some(ProblemCode::RequestTimeout), 30)
    );
}

/// Reads a body to its end.
async fn drain(payload: web::Payload, cap: u64) -> Result<(), Problem> {
    let body = limited(&announcing(&[]), payload, cap);
    body.try_for_each(|_| ready(Ok(()))).await.map_err(|error| explain(&error, cap))
}

/// Returns a body of chunks, each after a pause in seconds.
fn paused(chunks: &[(u64, usize)]) -> web::Payload {
    let chunks = chunks.to_vec();
    payload(stream::iter(chunks).then(async |(seconds, size)| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
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
        let finished = drain(paused(chunks), 1_000 * KIB as u64).await.err();
        let seconds = finished.is_some().then(|| started.elapsed().as_secs());
        assert_eq!(seconds, failed_after, "{chunks:?}");
        assert!(finished.is_none_or(|problem| problem == too_slow()));
    }
}

#[tokio::test(start_paused = true)]
async fn busy_service_does_not_make_the_client_slow() {
    let mut body = limited(&announcing(&[]), paused(&[(10, 1), (10, 1), (9, 1)]), 100);
    while let Some(chunk) = body.next().await {
        assert!(chunk.is_ok());
        advance(Duration::from_secs(60)).await;
    }
}
