//! The one runtime on which all connections of the process do their I/O and keep their time.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for all connections together; more do not help a machine with fewer cores.
const MAX_THREADS: usize = 4;

/// The runtime's handle. It is made on first use and lives as long as the process.
pub(crate) fn handle() -> Result<&'static Handle, std::io::Error> {
    static RUNTIME: OnceLock<Result<Runtime, std::io::ErrorKind>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("libwebrtc")
            .enable_all()
            .build()
            .map_err(|error| error.kind())
    });
    match made {
        Ok(runtime) => Ok(runtime.handle()),
        Err(kind) => Err((*kind).into()),
    }
}

/// Runs a task on the shared runtime. Without one (the system gives no threads) nothing in this crate can work;
/// the task is dropped and the reason logged.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    match handle() {
        Ok(handle) => drop(handle.spawn(task)),
        Err(error) => log::error!("libwebrtc has no runtime: {error}"),
    }
}
