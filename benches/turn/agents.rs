//! A process with many agents: one in each room whose name comes in on standard input, until that is closed.
//!
//! What [`sotto::cli::join`] does for one room, for all of them with one [`App`]: the same configuration, the same log, the
//! same sessions, the same kind of runtime.

use sotto::{app::App, config::Config, telemetry, tls};
use std::{process::ExitCode, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    sync::watch,
};

pub(crate) fn run() -> ExitCode {
    let config = Config::load(None).expect("the benchmark sets no nonsense");
    telemetry::start(&config.telemetry.log, telemetry::Format::Json)
        .expect("the log's filter is the default");
    tls::choose_provider();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the system can poll");
    runtime.block_on(host(config));
    ExitCode::SUCCESS
}

async fn host(config: Config) {
    let app = Arc::new(App::new(config).expect("the configuration is complete"));
    let _server = app.serve_http().await.expect("the system has free ports");
    app.get_to_know_the_model().await;
    let (_stay, leave) = watch::channel(false);
    let mut rooms = BufReader::new(stdin()).lines();
    while let Ok(Some(room)) = rooms.next_line().await {
        let (app, leave) = (Arc::clone(&app), leave.clone());
        tokio::spawn(async move {
            let end = app.join(&room, leave).await;
            eprintln!("{room} is over: {end:?}");
        });
    }
}
