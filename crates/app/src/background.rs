//! The threads of background work.

use anyhow::{Context as _, Result};
use rustix::process::nice;
use tokio::runtime::{Builder, Handle, Runtime};

/// What the threads add to the nice value of the process. Where processors are scarce, such a
/// thread gets about a tenth of what the thread of a request gets.
const NICENESS: i32 = 10;

/// Threads for file operations of the mail drop, and for names that are resolved.
const BLOCKING_THREADS: usize = 8;

/// Threads for work that no client waits for. Requests come first where processors are scarce.
pub(crate) struct BackgroundThreads {
    handle: Handle,
    /// Taken when this value is dropped.
    runtime: Option<Runtime>,
}

impl BackgroundThreads {
    /// Starts the threads.
    pub(crate) fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("background")
            .max_blocking_threads(BLOCKING_THREADS)
            .on_thread_start(lower_priority)
            .enable_all()
            .build()
            .context("the threads of background work could not be started")?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Returns where tasks are spawned.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

fn lower_priority() {
    // Only Linux has a nice value for each thread. Elsewhere it would be that of the process.
    if cfg!(target_os = "linux")
        && let Err(error) = nice(NICENESS)
    {
        tracing::warn!(%error, "a thread of background work keeps its priority");
    }
}

impl Drop for BackgroundThreads {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its threads, which a task must not do.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[tokio::test]
    async fn background_work_has_a_lower_priority() {
        let own = || getpriority_process(None).unwrap();
        let before = own();
        let threads = BackgroundThreads::start().unwrap();

        let of_task = threads.handle().spawn(async move { own() }).await.unwrap();
        let of_blocking = threads.handle().spawn_blocking(own).await.unwrap();

        let expected = (before + NICENESS).min(19);
        assert_eq!((of_task, of_blocking, own()), (expected, expected, before));
    }
}
