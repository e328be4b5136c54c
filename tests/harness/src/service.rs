//! A program in Python that serves HTTP on this machine, as our examples do. It ends when dropped.

use std::{
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use tokio::{net::TcpStream, time::sleep};

use crate::{PATIENCE, children, tools};

/// Such a program.
pub struct Service {
    port: u16,
    process: Child,
}

impl Service {
    /// Starts a script that listens on the port in its environment, with these variables, and waits until it does.
    pub async fn start(script: &Path, variables: &[(&str, &str)]) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut command = children::mortal(tools::PYTHON.path());
        command.arg(script).env("PORT", port.to_string()).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = children::spawn(command).expect("util-linux and Python are there");
        let listens = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, listens).await.expect("the service listens");
        Self { port, process }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
