//! Tasks that outlive their request.

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

    /// Waits until all tasks have ended. Call it when no more requests are served.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
