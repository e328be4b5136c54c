//! A real PostgreSQL server on a private Unix socket, with a database for each test. It ends with the tests.
//!
//! PostgreSQL refuses to run as root. Where the tests are root (in a container, or in the private network) it runs as
//! `nobody` of a user namespace of its own, or where there are none as the real `nobody`.

use std::{
    env, fs,
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{sync::OnceCell, time::sleep};

use crate::{PATIENCE, children, tools};

static SHARED: OnceCell<Arc<Postgres>> = OnceCell::const_new();

/// A running server.
pub struct Postgres {
    programs: PathBuf,
    directory: PathBuf,
    databases: AtomicU32,
    process: Mutex<Option<Child>>,
}

/// A database of its own on a server.
pub struct TestDatabase {
    server: Arc<Postgres>,
    url: String,
}

impl TestDatabase {
    /// Where clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs one of PostgreSQL's own programs on it, to its end.
    pub fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = self.server.client(program);
        command.args(["--dbname", &self.url]).args(arguments).stderr(Stdio::piped());
        let output = command.output().expect("it comes with PostgreSQL");
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The server that it is on.
    pub fn server(&self) -> &Postgres {
        &self.server
    }
}

impl Postgres {
    /// The server that tests share when they do it no harm.
    pub async fn shared() -> Arc<Self> {
        SHARED.get_or_init(Self::start).await.clone()
    }

    /// A server of the test's own.
    pub async fn start() -> Arc<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let programs = programs();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Short, for a socket's path has room for 107 bytes.
        let directory = env::temp_dir().join(format!("sotto-pg-{}-{number}", std::process::id()));
        fs::create_dir(&directory).expect("there is room for temporary files");
        let server = Self { programs, directory, databases: AtomicU32::new(0), process: Mutex::new(None) };
        server.prepare();
        server.launch().await;
        Arc::new(server)
    }

    /// A new database.
    pub fn database(self: &Arc<Self>) -> TestDatabase {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        assert!(
            self.client("createdb").arg(&name).status().is_ok_and(|status| status.success()),
            "no database"
        );
        let url = format!("postgres://sotto@localhost/{name}?host={}", self.directory.display());
        TestDatabase { server: Arc::clone(self), url }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join(".s.PGSQL.5432")
    }

    /// Ends it without a word, as a crash would.
    pub fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            // Both fail only when it is dead already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again after it was ended.
    pub async fn restart(&self) {
        self.kill();
        let deadline = Instant::now() + PATIENCE;
        // What the last one left keeps a new one away for a moment.
        while self
            .client("psql")
            .args(["-c", "SELECT 1", "postgres"])
            .status()
            .is_ok_and(|status| status.success())
        {
            assert!(Instant::now() < deadline, "PostgreSQL does not end");
            sleep(Duration::from_millis(20)).await;
        }
        self.launch().await;
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// A client program, which is told where the server is.
    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.env("PGHOST", &self.directory).env("PGUSER", "sotto");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn prepare(&self) {
        if as_nobody() == Nobody::Real {
            let path = self.directory.as_os_str();
            let owned = Command::new("chown").arg("nobody").arg(path).status();
            assert!(owned.is_ok_and(|status| status.success()), "root may give its files away");
        }
        let mut command = unprivileged(&self.programs.join("initdb"));
        command.args([
            "--auth=trust",
            "--username=sotto",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "-D",
        ]);
        let output = command.arg(self.data()).output().expect("util-linux and PostgreSQL are there");
        assert!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
    }

    async fn launch(&self) {
        let log = File::options().create(true).append(true).open(self.directory.join("log"));
        let log = log.expect("the directory was created at the start");
        let also_log = log.try_clone().expect("an open file can be shared");
        let mut command = unprivileged(Path::new("setpriv"));
        // As it ends when it is asked to hurry: nothing of it is left if the tests are killed.
        command.args(["--pdeathsig", "INT", "--"]).arg(self.programs.join("postgres"));
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.directory);
        // Tests do not cut the power.
        for setting in ["listen_addresses=", "fsync=off", "max_connections=200"] {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(log).stderr(also_log);
        *self.process() = Some(children::spawn(command).expect("util-linux and PostgreSQL are there"));

        let deadline = Instant::now() + PATIENCE;
        while !self.client("pg_isready").status().is_ok_and(|status| status.success()) {
            let ended = self.process().as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)));
            assert!(
                !ended && Instant::now() < deadline,
                "PostgreSQL does not start; its log:\n{}",
                self.log()
            );
            sleep(Duration::from_millis(30)).await;
        }
    }

    fn stop(&self) {
        if let Some(mut process) = self.process().take() {
            // What a fast shutdown is asked for with.
            let _ = Command::new("sh").args(["-c", "kill -INT \"$0\"", &process.id().to_string()]).status();
            let deadline = Instant::now() + Duration::from_secs(5);
            while Instant::now() < deadline && matches!(process.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(20));
            }
            // Both fail only when it is dead already.
            let _ = process.kill();
            let _ = process.wait();
        }
        // What is left is of no use, and in the way of nobody.
        let _ = fs::remove_dir_all(&self.directory);
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- PostgreSQL logged ---\n{}", self.log());
        }
        self.stop();
    }
}

pub(crate) fn stop_shared() {
    if let Some(server) = SHARED.get() {
        server.stop();
    }
}

/// Where PostgreSQL's programs are; without them the test steps aside, unless it must not.
fn programs() -> PathBuf {
    match tools::POSTGRES.try_find() {
        Some(programs) => programs.into(),
        None if env::var("SOTTO_REQUIRE_POSTGRES").is_ok_and(|value| value == "1") => {
            panic!("there is no PostgreSQL, and SOTTO_REQUIRE_POSTGRES=1 makes this a failure")
        }
        None => crate::skip("there is no PostgreSQL; see scripts/postgres"),
    }
}

/// Who runs PostgreSQL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nobody {
    /// Whoever runs the tests.
    Ourselves,
    /// Root, who is nobody in a user namespace.
    Mapped,
    /// Nobody.
    Real,
}

fn as_nobody() -> Nobody {
    let is_root = fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0);
    let maps = || {
        let mut command = Command::new("unshare");
        command.args(MAPPING).arg("true").stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    match is_root {
        false => Nobody::Ourselves,
        true if maps() => Nobody::Mapped,
        true => Nobody::Real,
    }
}

const MAPPING: [&str; 4] = ["--user", "--map-user=nobody", "--map-group=nogroup", "--"];

/// A command for a program that refuses to be run by root.
fn unprivileged(program: &Path) -> Command {
    let mut command = match as_nobody() {
        Nobody::Ourselves => return Command::new(program),
        Nobody::Mapped => {
            let mut command = Command::new("unshare");
            command.args(MAPPING);
            command
        }
        Nobody::Real => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]);
            command
        }
    };
    command.arg(program);
    command
}
