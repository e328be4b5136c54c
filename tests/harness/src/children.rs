//! Processes that end with this one, however it ends.
//!
//! The kernel sends a child its parent-death signal when the *thread* that started it ends, so all children are
//! started by one thread that lives as long as the process.

use std::{
    io,
    process::{Child, Command},
    sync::{OnceLock, mpsc},
    thread,
};

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// A command for `program` that is killed when this process dies.
pub(crate) fn mortal(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Starts a command from the thread that never ends.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static NURSERY: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let nursery = NURSERY.get_or_init(|| {
        let (orders, received) = mpsc::channel::<Order>();
        thread::Builder::new()
            .name("nursery".to_owned())
            .spawn(move || {
                for (mut command, answer) in received {
                    // The asker waits for the answer, so it is still there.
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("the system can start a thread");
        orders
    });
    let (answer, answered) = mpsc::channel();
    nursery.send((command, answer)).expect("the nursery never ends");
    answered.recv().expect("the nursery answers every order")
}

/// Asks a process to end.
pub(crate) fn terminate(child: &Child) {
    signal(child, "TERM");
}

/// Sends a process a signal, by its name.
pub(crate) fn signal(child: &Child, name: &str) {
    let arguments = ["-c", "kill -s \"$1\" \"$0\" 2>/dev/null", &child.id().to_string(), name];
    // Its failure means that the process is gone already.
    let _ = Command::new("sh").args(arguments).status();
}
