//! Work that goes on when its request is dropped, because the client has disconnected.

use std::{future::poll_fn, task::Poll};

use futures_util::FutureExt as _;
use scopeguard::guard;
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// Runs work that must finish even when its client disconnects.
#[derive(Clone)]
pub struct DetachedTasks {
    runtime: Handle,
    tasks: TaskTracker,
}

impl DetachedTasks {
    /// Runs the tasks on this runtime.
    pub fn new(runtime: Handle) -> Self {
        Self { runtime, tasks: TaskTracker::new() }
    }

    /// Starts a task in the current tracing span.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn_on(task.in_current_span(), &self.runtime)
    }

    /// Runs work within the request, which costs less than a task of its own. Only if this is
    /// dropped before the work has ended, a task does the rest, and `unused` gets the result.
    pub(crate) async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        unused: fn(T),
    ) -> T {
        // `None` when the work has ended or panicked.
        let mut work = guard(Some(work.boxed()), |work| {
            work.map(|work| self.spawn(work.map(unused)));
        });
        poll_fn(|context| {
            let Some(mut running) = work.take() else { return Poll::Pending };
            // The work may outlive the worker of actix, and then must not have its timers.
            let _entered = self.runtime.enter();
            let polled = running.poll_unpin(context);
            if polled.is_pending() {
                *work = Some(running);
            }
            polled
        })
        .await
    }

    /// Waits until all tasks have ended. Call it when no more requests are served.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
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
        let mut running = Box::pin(tasks.run_to_end(work, unused));
        assert!((&mut running).now_or_never().is_none());

        drop(running);
        sender.send(7).unwrap();
        tasks.finish().await;

        assert_eq!(UNUSED.load(Ordering::Relaxed), 7);
    }

    #[tokio::test]
    async fn ended_work_has_no_task() {
        let tasks = DetachedTasks::new(Handle::current());
        assert_eq!(tasks.run_to_end(async { 7 }, |_| panic!("the result was used")).await, 7);
        tasks.finish().await;
    }
}
