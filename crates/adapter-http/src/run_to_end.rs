//! Work that goes on when its request is dropped, because the client has disconnected.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{FutureExt as _, future::BoxFuture};

use crate::detached_tasks::DetachedTasks;

/// Runs work within the request, which costs less than a task of its own. Only if this is dropped
/// before the work has ended, a detached task does the rest.
pub(crate) struct RunToEnd<T: Send + 'static> {
    /// `None` when the work has ended or panicked.
    work: Option<BoxFuture<'static, T>>,
    tasks: DetachedTasks,
    unused: fn(T),
}

impl<T: Send + 'static> RunToEnd<T> {
    /// Starts work when it is polled. `unused` gets the result if the request has no use for it.
    pub(crate) fn new(
        work: impl Future<Output = T> + Send + 'static,
        tasks: DetachedTasks,
        unused: fn(T),
    ) -> Self {
        Self { work: Some(work.boxed()), tasks, unused }
    }
}

impl<T: Send + 'static> Future for RunToEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.poll_unpin(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for RunToEnd<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.tasks.spawn(work.map(self.unused));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::{runtime::Handle, sync::oneshot};

    use super::*;

    #[tokio::test]
    async fn dropped_work_runs_to_its_end() {
        static UNUSED: AtomicU32 = AtomicU32::new(0);
        let tasks = DetachedTasks::new(Handle::current());
        let (sender, receiver) = oneshot::channel();
        let work = async { receiver.await.unwrap() };
        let unused = |result| UNUSED.store(result, Ordering::Relaxed);
        let mut running = RunToEnd::new(work, tasks.clone(), unused);
        assert!((&mut running).now_or_never().is_none());

        drop(running);
        sender.send(7).unwrap();
        tasks.finish().await;

        assert_eq!(UNUSED.load(Ordering::Relaxed), 7);
    }

    #[tokio::test]
    async fn ended_work_has_no_task() {
        let tasks = DetachedTasks::new(Handle::current());
        let unused = |_| panic!("the result was used");
        assert_eq!(RunToEnd::new(async { 7 }, tasks.clone(), unused).await, 7);
        tasks.finish().await;
    }
}
