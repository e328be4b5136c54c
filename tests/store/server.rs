//! What can happen to a server.

use crate::bench::{Bench, answer, elsewhere, journal, kept, settings, stanza};
use sotto::ports::StoreError;
use sotto::store::postgres;
use sotto_harness::postgres::Postgres;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// Each record is kept exactly once and in its place, although the server is killed again and again: whoever was told of
/// an error may try again, and whoever was not need not.
pub(crate) async fn a_server_that_crashes_loses_and_doubles_nothing() {
    let server = Postgres::start().await;
    let bench = Bench::on(server.database());
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    let (written, mut progress) = watch::channel(0);
    let writing = tokio::spawn(async move {
        for index in 0..400 {
            let record = answer(&format!("m{index}"));
            while let Err(error) = room.append(vec![record.clone()], true).await {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            }
            written.send_replace(index);
        }
    });
    for kills in 1..=5 {
        // Somewhere in the middle of it.
        progress.wait_for(|index| *index >= kills * 60).await.expect("it goes on");
        server.restart().await;
    }
    writing.await.expect("all was kept");
    let expected: Vec<_> = (0..400).map(|index| answer(&format!("m{index}"))).collect();
    assert_eq!(kept(&store, "room").await, expected);
}

/// The answer to a commit never comes, while the commit is done: it is found out, and not done twice.
pub(crate) async fn a_connection_lost_during_a_commit_is_seen_through(bench: Bench) {
    // The commit itself ends its connection, after which the transaction is undone; then it does not any more.
    let store = bench.open().await;
    let room = journal(&store, "room").await;
    bench
        .run(
            "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$",
        )
        .await;
    bench
        .run(
            "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON stanzas DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION cut()",
        )
        .await;
    let appending = tokio::spawn(room.append(vec![answer("m1"), stanza(-1)], true));
    while bench.count("SELECT count(*) FROM pg_stat_database WHERE datname = current_database() AND sessions_killed > 0").await == 0 {
        tokio::task::yield_now().await;
    }
    bench.run("DROP TRIGGER cut ON stanzas").await;
    appending.await.expect("no panic").expect("it was tried until it was certain");
    assert_eq!(kept(&store, "room").await, [answer("m1"), stanza(-1)]);
}

pub(crate) async fn what_is_wrong_is_told_in_words_without_the_password() {
    let server = Postgres::start().await;
    let database = server.database();
    let url = |name: &str| database.url().replace("sotto@", "sotto:canary-7f3a@").replace("/test0", name);
    let told = async |url: &str| match postgres::open(url, settings(), elsewhere()).await {
        Ok(_) => panic!("it must not work"),
        Err(error) => {
            assert!(!error.to_string().contains("canary"), "{error}");
            error
        }
    };
    let error = told(&url("/nowhere")).await;
    assert!(matches!(&error, StoreError::Broken(words) if words.contains("createdb")), "{error}");
    let error = told("postgres://sotto:canary-7f3a@localhost:port/x").await;
    assert!(matches!(&error, StoreError::Broken(words) if words.contains("store.url")), "{error}");
    let error = told("postgres://sotto:canary-7f3a@127.0.0.1:1/x").await;
    assert!(matches!(&error, StoreError::Unavailable(words) if words.contains("127.0.0.1:1")), "{error}");

    let store = postgres::open(&url("/test0"), settings(), elsewhere()).await.expect("this one is there");
    let room = journal(&store, "room").await;
    server.kill();
    let error = room.append(vec![stanza(-1)], false).await.expect_err("the server is gone");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    server.restart().await;
    room.append(vec![stanza(-1)], false).await.expect("it comes back by itself");
    let report = store.check().await.expect("the store works");
    assert!(!report.place.contains("canary") && report.place.contains("test0"), "{report:?}");
}

/// The server commits, and its answer is lost on the way: that it is kept is found out, and it is not kept twice.
pub(crate) async fn a_commit_whose_answer_is_lost_is_kept_once() {
    let server = Postgres::start().await;
    let database = server.database();
    let socket = server.socket();
    let between = tempfile::TempDir::new().expect("there is room for temporary files");
    let listener = UnixListener::bind(between.path().join(".s.PGSQL.5432")).expect("nobody else is there");
    let lose = Arc::new(AtomicUsize::new(0));
    tokio::spawn(hand_on(listener, socket, Arc::clone(&lose)));

    let url = format!("postgres://sotto@localhost/test0?host={}", between.path().display());
    let store =
        postgres::open(&url, settings(), elsewhere()).await.expect("it is reached through the other one");
    let room = journal(&store, "room").await;
    for index in 0..5 {
        lose.fetch_add(1, Ordering::SeqCst);
        room.append(vec![answer(&format!("m{index}")), stanza(-1 - index)], true).await.expect("it is kept");
    }
    // The heartbeat may have taken one, but none is left: each answer was lost.
    assert_eq!(lose.load(Ordering::SeqCst), 0);
    let expected: Vec<_> =
        (0..5).flat_map(|index| [answer(&format!("m{index}")), stanza(-1 - index)]).collect();
    assert_eq!(kept(&Bench::on(database).open().await, "room").await, expected);
}

/// Connects whoever comes to `server`, but cuts the line before the answer to a commit, so many times as `lose` says.
async fn hand_on(listener: UnixListener, server: PathBuf, lose: Arc<AtomicUsize>) {
    loop {
        let Ok((mut client, _)) = listener.accept().await else { return };
        let (server, lose) = (server.clone(), Arc::clone(&lose));
        tokio::spawn(async move {
            let mut server = UnixStream::connect(server).await.expect("the server runs");
            let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
            loop {
                tokio::select! {
                    read = client.read(&mut asked) => {
                        let Ok(1..) = read.as_ref() else { return };
                        let asked = &asked[..read.unwrap_or_default()];
                        server.write_all(asked).await.expect("the server runs");
                        let commits = asked.windows(6).any(|window| window == b"COMMIT");
                        let one_less = |left: usize| left.checked_sub(1);
                        if commits && lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                            // Once it answers, it has committed.
                            let read = server.read(&mut answered).await.expect("the server runs");
                            assert!(read > 0, "the server ended");
                            return;
                        }
                    }
                    read = server.read(&mut answered) => {
                        let Ok(1..) = read.as_ref() else { return };
                        if client.write_all(&answered[..read.unwrap_or_default()]).await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
    }
}
