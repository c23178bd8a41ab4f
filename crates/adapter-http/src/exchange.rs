//! What a connection is doing. Its transport and its requests share this.
//!
//! A request can read bytes of its body itself. Later the framework gets stand-ins for them: as many
//! zeros, which it counts and passes on, and which the request drops.

use std::{
    cell::{Cell, RefCell},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use actix_web::http::StatusCode;
use tokio::{
    io::{AsyncRead as _, ReadBuf},
    sync::OwnedSemaphorePermit,
    time::Instant,
};

use crate::{
    connections::ConnectionTracker,
    read_bytes::{BodyLength, ReadBytes},
    stream::Stream,
};

/// Time limit for the head of a request, from its first byte.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than the 60 s of common load balancers, so that the balancer closes idle connections and
/// never sends a request into a closing one.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Bytes that a connection may hold of a head.
pub(crate) const READ_AHEAD: usize = 16 * 1024;
/// Bytes after which the framework looks at what it has. Its buffer of 8 KiB grows for good if more
/// bytes arrive before.
pub(crate) const STEP: usize = 6 * 1024;
/// Bytes that a connection may hold of a body that its request reads. Many connections share
/// [`BODIES_AHEAD`], and each has [`STEP`] at least.
pub(crate) const BODY_AHEAD: usize = 128 * 1024;
/// Bytes of bodies that the connections share.
const BODIES_AHEAD: usize = 384 * 1024;
/// Bytes of its body that a request may read itself at a time. Many connections share
/// [`OWN_READS`].
const OWN_READ: usize = 256 * 1024;
/// Bytes of such reads that the connections share.
const OWN_READS: usize = 4 * 1024 * 1024;
/// Bytes of a body that a connection may hold in a crowd.
const CROWDED_AHEAD: usize = 4 * 1024;
/// Bytes that a connection may hold of a body that its request does not read. Reading them shows
/// whether the client is gone.
const UNREAD_AHEAD: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    /// No request: the connection is idle, or a head has begun.
    Head { begun: bool },
    /// A request is in progress.
    Request,
    /// The answer is sent, and the rest of the body is not read: the connection ends.
    Rest,
}

/// State of a connection.
pub(crate) struct Exchange {
    /// `None` before [`Self::keep_stream`] and after [`Self::take_stream`].
    stream: RefCell<Option<Stream>>,
    connections: Arc<ConnectionTracker>,
    permit: Cell<Option<OwnedSemaphorePermit>>,
    permit_kind: Cell<PermitKind>,
    phase: Cell<Phase>,
    /// Start of the head, or end of the last answer.
    since: Cell<Instant>,
    /// Bytes that the transport may still read in this phase.
    allowance: Cell<usize>,
    /// Bytes of a head that it may read after those.
    head_left: Cell<usize>,
    /// Bytes that the framework has got, or the request has read itself.
    bytes: RefCell<ReadBytes>,
    /// Stand-ins that the framework is still to get.
    stand_ins: Cell<u64>,
    /// The error of a read of the request, for the framework.
    error: Cell<Option<io::Error>>,
    /// The transport's task, while it waits for an allowance.
    parked: Cell<Option<Waker>>,
    /// Whether the answer is a download, which may take long.
    download: Cell<bool>,
    interim: Cell<Interim>,
    /// Whether the `100 Continue` of the framework is still to be dropped.
    swallow: Cell<bool>,
    /// Whether the last request that was not shed succeeded.
    succeeded: Cell<bool>,
}

/// What the permit of a connection is for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PermitKind {
    /// To be served.
    Served,
    /// To stay open in a crowd.
    Kept,
    /// To send a download, which leaves the permit to be served to others.
    Download,
}

/// State of a `100 Continue`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Interim {
    /// The client expects none.
    None,
    /// The framework sends one. The transport keeps it back until the request reads its body, or
    /// for good if the client cannot understand it.
    KeptBack { for_good: bool },
    /// The request reads its body.
    Due,
}

impl Exchange {
    pub(crate) fn new(connections: Arc<ConnectionTracker>) -> Self {
        // The first head has arrived already. The rest is read, too, if there is room: closing a
        // connection with unread bytes would reset it, and its client might lose the answer.
        let ahead = if connections.are_crowded() { UNREAD_AHEAD } else { STEP };
        Self {
            stream: RefCell::new(None),
            connections,
            permit: Cell::new(None),
            permit_kind: Cell::new(PermitKind::Served),
            phase: Cell::new(Phase::Head { begun: false }),
            since: Cell::new(Instant::now()),
            allowance: Cell::new(ahead),
            head_left: Cell::new(0),
            bytes: RefCell::default(),
            stand_ins: Cell::new(0),
            error: Cell::new(None),
            parked: Cell::new(None),
            download: Cell::new(false),
            interim: Cell::new(Interim::None),
            swallow: Cell::new(false),
            succeeded: Cell::new(false),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Notes that a request with such a body has begun.
    pub(crate) fn request_started(&self, body: BodyLength) {
        self.bytes.borrow_mut().request_started(body);
        self.phase.set(Phase::Request);
        self.allow(UNREAD_AHEAD);
    }

    /// Notes that a request waits for more of its body.
    pub(crate) fn body_wanted(&self) {
        self.allow(if self.is_in_crowd() {
            CROWDED_AHEAD
        } else {
            self.share(BODIES_AHEAD, BODY_AHEAD)
        });
        if self.interim.get() == (Interim::KeptBack { for_good: false }) {
            self.interim.set(Interim::Due);
        }
    }

    /// Returns this connection's share of bytes, at least [`STEP`] and at most `most`.
    fn share(&self, of: usize, most: usize) -> usize {
        (of / self.connections.served().max(1)).clamp(STEP, most)
    }

    /// Returns whether a request that has received so many bytes of its body may read on with
    /// [`Self::poll_read_body`]. In a crowd it may not, because it would hold more than others.
    pub(crate) fn may_read_body(&self, received: u64) -> bool {
        !self.is_in_crowd() && self.body_left(received) > 0
    }

    fn body_left(&self, received: u64) -> u64 {
        self.bytes.borrow().body_left(received).unwrap_or_default()
    }

    /// Reads bytes of the body that have arrived, past the framework. Returns their number: 0 if the
    /// connection or the body has ended, or the read failed. The framework gets the error later.
    ///
    /// The framework reads nothing until the request asks it for more. So no byte passes another.
    pub(crate) fn poll_read_body(
        &self,
        context: &mut Context<'_>,
        received: u64,
        memory: &mut [u8],
    ) -> Poll<usize> {
        let left = usize::try_from(self.body_left(received)).unwrap_or(usize::MAX);
        let most = self.share(OWN_READS, OWN_READ).min(left).min(memory.len());
        if most == 0 {
            return Poll::Ready(0);
        }
        self.allowance.set(0);
        let mut buffer = ReadBuf::new(&mut memory[..most]);
        let read = ready!(self.poll_stream(|stream| stream.poll_read(context, &mut buffer)));
        self.error.set(read.err());
        let bytes = buffer.filled();
        self.bytes.borrow_mut().add(bytes);
        self.stand_ins.set(self.stand_ins.get() + bytes.len() as u64);
        Poll::Ready(bytes.len())
    }

    /// Returns the error of [`Self::poll_read_body`], once.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.error.take()
    }

    /// Takes at most `max` of the stand-ins that the framework gets before other bytes. Returns
    /// their number.
    pub(crate) fn take_stand_ins(&self, max: usize) -> usize {
        let left = self.stand_ins.get();
        let taken = max.min(usize::try_from(left).unwrap_or(usize::MAX));
        self.stand_ins.set(left - taken as u64);
        self.allowance.set(self.allowance.get().saturating_sub(taken));
        taken
    }

    /// Returns whether the connection must take as little as it can.
    pub(crate) fn is_in_crowd(&self) -> bool {
        self.connections.are_crowded()
    }

    /// Notes the status of an answer. 503 says nothing about the client.
    pub(crate) fn note_status(&self, status: StatusCode) {
        if status != StatusCode::SERVICE_UNAVAILABLE {
            // 304 is a success, too.
            self.succeeded.set(status.as_u16() < 400);
        }
        if self.succeeded.get()
            && self.permit_kind.get() == PermitKind::Served
            && let Some(permit) = self.connections.try_keep()
        {
            self.swap_permit(PermitKind::Kept, permit);
        }
    }

    /// Returns whether the last request that was not shed succeeded.
    pub(crate) fn succeeded(&self) -> bool {
        self.succeeded.get()
    }

    /// Notes that the answer is sent. `whole` tells whether its request was read to its end.
    pub(crate) fn answered(&self, whole: bool) {
        self.phase.set(if whole { Phase::Head { begun: false } } else { Phase::Rest });
        self.bytes.borrow_mut().request_ended();
        self.since.set(Instant::now());
        self.interim.set(Interim::None);
        self.download.set(false);
        self.head_left.set(READ_AHEAD - STEP);
        self.allow(STEP);
    }

    /// Waits until the connection may be served; returns whether it may.
    pub(crate) async fn serve(&self) -> bool {
        let permit = self.connections.serve().await;
        let may = permit.is_some();
        self.permit.set(permit);
        may
    }

    /// Notes that the connection is no longer served.
    pub(crate) fn served(&self) {
        self.permit.set(None);
    }

    /// Returns whether the request must be rejected, because it may be part of the one before. The
    /// framework reads on, even after an answer that closes the connection.
    pub(crate) fn must_reject(&self) -> bool {
        self.bytes.borrow().is_lost()
    }

    /// Returns whether the answer must close the connection.
    pub(crate) fn must_close(&self) -> bool {
        self.bytes.borrow().is_end_doubtful()
            || match self.permit_kind.get() {
                PermitKind::Download => true,
                PermitKind::Kept => self.connections.is_closing(),
                PermitKind::Served => self.connections.must_close(self.succeeded.get()),
            }
    }

    /// Notes that the answer is a download.
    pub(crate) fn download_started(&self) {
        self.download.set(true);
        if let Some(permit) = self.connections.try_download_aside() {
            self.swap_permit(PermitKind::Download, permit);
        }
    }

    fn swap_permit(&self, kind: PermitKind, permit: OwnedSemaphorePermit) {
        self.permit_kind.set(kind);
        self.permit.set(Some(permit));
    }

    /// Returns whether the answer is a download.
    pub(crate) fn is_download(&self) -> bool {
        self.download.get()
    }

    fn allow(&self, bytes: usize) {
        self.allowance.set(bytes);
        if let Some(parked) = self.parked.take() {
            parked.wake();
        }
    }

    /// Returns how many bytes the transport may read now.
    pub(crate) fn allowance(&self) -> usize {
        self.allowance.get()
    }

    /// Lets the transport read the rest of a head, once. Returns `false` if the head has reached its
    /// limit.
    pub(crate) fn allow_rest_of_head(&self) -> bool {
        self.allowance.set(self.head_left.take());
        self.allowance.get() > 0
    }

    /// Notes the bytes that were read before the framework took over.
    pub(crate) fn first(&self, bytes: &[u8]) {
        self.bytes.borrow_mut().add(bytes);
    }

    /// Notes bytes that the transport has read.
    pub(crate) fn read(&self, bytes: &[u8]) {
        self.bytes.borrow_mut().add(bytes);
        self.allowance.set(self.allowance.get().saturating_sub(bytes.len()));
        if !bytes.is_empty() && self.phase.get() == (Phase::Head { begun: false }) {
            self.phase.set(Phase::Head { begun: true });
            self.since.set(Instant::now());
        }
    }

    /// Wakes a task when the transport may read again.
    pub(crate) fn park(&self, task: &Waker) {
        self.parked.set(Some(task.clone()));
    }

    /// Returns when the connection ends if nothing happens until then.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let limit = match self.phase.get() {
            Phase::Head { begun: false } if self.bytes.borrow().is_between_requests() => KEEP_ALIVE,
            // The next head may have begun in the same read as the end of the last request.
            Phase::Head { .. } => HEAD_TIMEOUT,
            Phase::Request | Phase::Rest => return None,
        };
        Some(self.since.get() + limit)
    }

    /// Keeps back the `100 Continue` that the framework is about to write.
    pub(crate) fn keep_interim_back(&self, for_good: bool) {
        self.interim.set(Interim::KeptBack { for_good });
        self.swallow.set(true);
    }

    /// Returns whether the transport must drop the `100 Continue` of the framework, once.
    pub(crate) fn take_swallow(&self) -> bool {
        self.swallow.take()
    }

    /// Returns whether a `100 Continue` must be written now, once.
    pub(crate) fn take_due_interim(&self) -> bool {
        let due = self.interim.get() == Interim::Due;
        if due {
            self.interim.set(Interim::None);
        }
        due
    }

    /// Keeps the connection, for the transport and the requests.
    pub(crate) fn keep_stream(&self, stream: Stream) {
        self.stream.replace(Some(stream));
    }

    /// Polls the connection.
    pub(crate) fn poll_stream<T>(
        &self,
        poll: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self.stream.borrow_mut().as_mut() {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Takes the connection back. Call it when the framework has ended.
    pub(crate) fn take_stream(&self) -> Option<Stream> {
        self.stream.take()
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[tokio::test]
    async fn bodies_of_many_connections_fit_into_the_first_buffers_of_the_framework() {
        let connections = Arc::<ConnectionTracker>::default();
        let exchange = Exchange::new(Arc::clone(&connections));
        let mut served = Vec::new();
        for (count, ahead) in [(1, BODY_AHEAD), (8, 48 * 1024), (64, STEP), (128, STEP)] {
            while served.len() < count {
                served.push(connections.serve().await.unwrap());
            }
            exchange.body_wanted();
            assert_eq!(exchange.allowance(), ahead, "{count} connections");
        }
    }

    #[tokio::test]
    async fn client_that_succeeded_keeps_its_connection_in_a_crowd() {
        let connections = Arc::<ConnectionTracker>::default();
        let [client, other] = [0; 2].map(|_| Exchange::new(Arc::clone(&connections)));
        let mut served = Vec::new();
        while !connections.must_close(true) {
            served.push(connections.serve().await.unwrap());
        }
        for (exchange, statuses, closes) in [
            (&client, [StatusCode::CREATED, StatusCode::SERVICE_UNAVAILABLE], false),
            (&other, [StatusCode::SERVICE_UNAVAILABLE, StatusCode::NOT_FOUND], true),
        ] {
            for status in statuses {
                exchange.note_status(status);
                assert_eq!(exchange.must_close(), closes, "{status}");
            }
        }
        connections.close(Duration::ZERO).await;
        assert!(client.must_close());
    }

    #[tokio::test]
    async fn download_in_a_crowd_leaves_the_permits_of_kept_connections_to_others() {
        let connections = Arc::<ConnectionTracker>::default();
        let mut served = Vec::new();
        while !connections.are_crowded() {
            served.push(connections.serve().await.unwrap());
        }
        let keepable = || iter::from_fn(|| connections.try_keep()).collect::<Vec<_>>().len();
        let (before, exchange) = (keepable(), Exchange::new(Arc::clone(&connections)));
        exchange.download_started();
        exchange.note_status(StatusCode::OK);
        assert!(exchange.must_close());
        assert_eq!(keepable(), before);
    }
}
