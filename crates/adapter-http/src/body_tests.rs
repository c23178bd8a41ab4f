use std::{cell::Cell, io::ErrorKind, rc::Rc};

use actix_web::{FromRequest as _, dev, test::TestRequest};
use futures_util::{FutureExt as _, stream};
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
        (Some(ProblemCode::MalformedRequest), 15)
    );
    let started = Instant::now();
    let problem = Body::new(&announcing(&[]), payload(stream::pending()), 100).finish().await;
    assert_eq!(
        (code(problem), started.elapsed().as_secs()),
        (Some(ProblemCode::MalformedRequest), 30)
    );
}

#[actix_web::test]
async fn finish_reads_the_rest() {
    let read = Rc::new(Cell::new(0));
    let counted = read.clone();
    let body = stream::iter(chunks(&[1, 2, 3]))
        .inspect(move |chunk| counted.set(counted.get() + chunk.as_ref().unwrap().len()));
    assert_eq!(Body::new(&announcing(&[]), payload(body), 100).finish().await, Ok(()));
    assert_eq!(read.get(), 6);
    let too_large =
        Body::new(&announcing(&[]), payload(stream::iter(chunks(&[101]))), 100).finish().await;
    assert_eq!(code(too_large), Some(ProblemCode::PayloadTooLarge));
    let broken = payload(stream::iter([Err(PayloadError::Io(ErrorKind::ConnectionReset.into()))]));
    assert_eq!(
        code(Body::new(&announcing(&[]), broken, 100).finish().await),
        Some(ProblemCode::MalformedRequest)
    );
}

/// After the first minute a body must have arrived at 1,024 bytes per second.
#[tokio::test(start_paused = true)]
async fn slow_body_fails_after_grace() {
    for (size, milliseconds, in_time) in [
        (1, 60_000, true),
        (1, 60_001, false),
        (1_024, 60_999, true),
        (10 * 1_024, 70_000, true),
        (10 * 1_024, 70_001, false),
        (10 * 1_024, 30_000, true),
    ] {
        let mut body = Body::new(&announcing(&[]), payload(stream::iter(chunks(&[size]))), 100_000);
        advance(Duration::from_millis(milliseconds)).await;
        assert_eq!(
            body.next().await.unwrap().is_ok(),
            in_time,
            "{size} bytes after {milliseconds} ms"
        );
    }
}
